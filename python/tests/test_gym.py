"""The environment for reinforcement learning, if gymnasium is installed."""

import doctest

import pytest

pytest.importorskip("gymnasium")

from poseidon_cc import gym  # noqa: E402


def episode(seed, action, stop="1 ms"):
    env = gym.CongestionEnv("quickstart", overrides={"stop": stop}, signals=["rtt", "max-hop-delay"])
    observation, info = env.reset(seed=seed)
    steps, is_over = [], False
    while not is_over:
        assert env.observation_space.contains(observation), observation
        observation, reward, terminated, is_over, info = env.step([action])
        assert not terminated
        steps.append((reward, info["flow"], info["now_ns"], info["window_packets"]))
    env.close()
    return steps


def test_an_episode_is_deterministic():
    assert episode(3, 0.1) == episode(3, 0.1)
    assert episode(3, 0.1) != episode(4, 0.1)


def test_actions_change_the_windows():
    grow, shrink = episode(1, 0.5), episode(1, -0.5)
    assert max(step[3] for step in grow) > 100 > 1 > min(step[3] for step in shrink)


def test_an_environment_can_be_left_early():
    env = gym.CongestionEnv("quickstart")
    for seed in range(3):
        env.reset(seed=seed)
        env.step([0.0])
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step([0.0])


def test_errors_reach_the_caller():
    env = gym.CongestionEnv("quickstart", signals=["circuit-state"])
    with pytest.raises(ValueError, match="circuit-state"):
        env.reset(seed=1)


def test_docstrings():
    assert doctest.testmod(gym).failed == 0
