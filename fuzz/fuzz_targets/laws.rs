#![no_main]
//! Fuzzes all control laws. The first bytes select the law, its parameters and its path; the remaining bytes encode
//! operations.
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use poseidon_laws::law::MIN_LINE_RATE;
use poseidon_laws::{Ack, LAWS, LawDefinition, Loss, Path, Timeout, Trim};
use poseidon_testkit::operations::{Operation, apply, assert_valid_decision, random_params};
use poseidon_types::{BitRate, Bytes, CounterWrap, HopRecord, HopStack, Nanos};

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let (Ok(law), Ok(choices), Ok(path)) =
        (input.choose_index(LAWS.len()), input.arbitrary(), path(&mut input))
    else {
        return;
    };
    let mut operations = Vec::new();
    while let Ok(operation) = operation(&mut input) {
        operations.push(operation);
        if input.is_empty() || operations.len() > 256 {
            break;
        }
    }
    macro_rules! run_chosen_law {
        ($($module:ident :: $law:ident,)*) => {
            let runs = [$(run::<poseidon_laws::laws::$module::$law>),*];
            runs[law](choices, &path, &operations);
        };
    }
    poseidon_laws::law_list!(run_chosen_law);
});

/// Checks the law's invariants after every operation, and checks that a replay reaches the same state.
fn run<L: LawDefinition>(choices: [u8; 16], path: &Path, operations: &[Operation]) {
    let mut choices = choices.iter().cycle();
    let params = random_params::<L::Params>(|below| {
        usize::from(*choices.next().expect("the iterator is endless")) % below
    });
    let mut law = L::new(&params, path);
    let mut replay = law.clone();
    for operation in operations {
        apply(&mut law, operation);
        assert_valid_decision(&law);
        apply(&mut replay, operation);
    }
    assert!(law == replay, "a replay reaches a different state: {law:?} {replay:?}");
}

fn path(input: &mut Unstructured<'_>) -> Result<Path> {
    Ok(Path {
        mtu: Bytes::new(input.int_in_range(1..=65_535)?),
        line_rate: BitRate::from_bps(input.int_in_range(MIN_LINE_RATE.get()..=1_000_000_000_000)?),
        base_rtt: Nanos::new(input.int_in_range(1..=u64::from(u32::MAX))?),
    })
}

fn operation(input: &mut Unstructured<'_>) -> Result<Operation> {
    let now = Nanos::new(input.arbitrary()?);
    Ok(match input.arbitrary::<u8>()? {
        0 => Operation::Loss(Loss { now }),
        1 => Operation::Timeout(Timeout { now, bytes: Bytes::new(input.arbitrary()?) }),
        2 => Operation::Trim(Trim {
            now,
            bytes: Bytes::new(input.arbitrary()?),
            in_flight: Bytes::new(input.arbitrary()?),
            last_hop: input.arbitrary()?,
            rtt: if input.arbitrary()? { Some(Nanos::new(input.arbitrary()?)) } else { None },
        }),
        flags => {
            let delay = |input: &mut Unstructured<'_>, known: bool| -> Result<Option<Nanos>> {
                Ok(if known { Some(Nanos::new(input.arbitrary()?)) } else { None })
            };
            let ack = Ack {
                now,
                rtt: Nanos::new(input.arbitrary()?),
                packets: input.arbitrary()?,
                bytes: Bytes::new(input.arbitrary()?),
                marked: Bytes::new(if flags & 4 != 0 { input.arbitrary()? } else { 0 }),
                in_flight: Bytes::new(input.arbitrary()?),
                rtt_ambiguous: flags & 128 != 0,
                acked_seq: input.arbitrary()?,
                next_seq: input.arbitrary()?,
                max_hop_delay: delay(input, flags & 8 != 0)?,
                reverse_max_hop_delay: delay(input, flags & 16 != 0)?,
                circuit_up: flags & 32 != 0,
                app_limited: flags & 64 != 0,
                hop_count: flags >> 4,
                endpoint_delay: Nanos::new(if flags & 2 != 0 { input.arbitrary()? } else { 0 }),
                random: input.arbitrary()?,
                ..Ack::EMPTY
            };
            let mut stack = HopStack::EMPTY;
            for _ in 0..input.int_in_range(0..=9u8)? {
                stack.push(HopRecord {
                    timestamp: Nanos::new(input.arbitrary()?),
                    sent: Bytes::new(input.arbitrary()?),
                    queue: Bytes::new(input.arbitrary()?),
                    rate: BitRate::from_bps(input.arbitrary()?),
                });
            }
            let wrap = CounterWrap {
                timestamp: Nanos::new(input.arbitrary()?),
                sent: Bytes::new(input.arbitrary()?),
            };
            Operation::Ack(Box::new((ack, stack, wrap)))
        }
    })
}
