//! Stacks that a build does not contain are refused.

#![cfg(not(all(feature = "quinn", feature = "smoltcp")))]

use poseidon_plan::PlanError;
use poseidon_plan::Topology;
use poseidon_plan::stack::{StackKind, StackLaw};
use poseidon_plan::stack_factory::StackFactory as _;
use poseidon_stacks::STACKS;
use poseidon_testkit::plans::{LINK, plan};

#[test]
fn stack_that_is_not_built_in_is_refused() {
    for stack in StackKind::ALL {
        let is_built_in = match stack {
            StackKind::Quinn => cfg!(feature = "quinn"),
            StackKind::Smoltcp => cfg!(feature = "smoltcp"),
        };
        let mut plan = plan(Topology::star(2, LINK), "swift", &[(0, 1)]);
        assert_eq!(STACKS.check(&plan), Ok(()), "a plan without stacks needs none");
        plan.stacks = vec![StackLaw { law: 0, stack, controller: Some(stack.controllers()[0]) }];
        if is_built_in {
            assert_eq!(STACKS.check(&plan), Ok(()));
        } else {
            let error = STACKS.check(&plan).expect_err("the stack is not built in");
            assert!(
                matches!(error, PlanError::Unsupported(reason) if reason.contains(stack.name())),
                "{error}"
            );
        }
    }
}
