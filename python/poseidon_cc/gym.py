"""A gymnasium environment: an agent chooses the window of each flow, once per round trip.

>>> from poseidon_cc.gym import CongestionEnv
>>> env = CongestionEnv("quickstart", overrides={"stop": "1 ms"})
>>> observation, info = env.reset(seed=1)
>>> observation.shape
(5,)
>>> observation, reward, terminated, truncated, info = env.step([0.0])
>>> sorted(info)
['flow', 'now_ns', 'window_packets']
>>> env.close()

The simulator runs in a thread and waits for the agent at the end of each round trip of each flow. If the scenario has
several flows, they take turns: ``info["flow"]`` is the flow that the next action applies to.

Needs gymnasium: ``pip install poseidon-cc[gym]``.
"""

import queue
import threading

import gymnasium
import numpy as np

from . import _core  # type: ignore[attr-defined]  # __init__.pyi describes what it defines.

__all__ = ["CongestionEnv"]

_MAX_WINDOW = 32_768.0
_MIN_WINDOW = 0.001


class _Stopped(Exception):
    """Ends the run of an environment that was closed or reset."""


class CongestionEnv(gymnasium.Env):
    """Congestion control of all flows that use the law of the agent.

    Args:
        scenario: a scenario whose law can be replaced (`poseidon_cc.run`).
        overrides: values of keys of the scenario.
        signals: the signals that the flows need. With ``max-hop-delay``, the observation contains it.
        delay_weight: how much queueing delay costs, in the reward.

    The action is the base-2 logarithm of the factor of the window, between -1 and 1.

    The observation describes the last round trip: the smallest RTT divided by the base RTT, the mean RTT divided by the
    base RTT, the acknowledged bytes divided by the bandwidth-delay product, the share of marked bytes, and the largest
    hop delay divided by the base RTT (-1 without telemetry).

    The reward is the throughput divided by the line rate, minus `delay_weight` times the mean queueing delay divided by
    the base RTT.
    """

    metadata = {"render_modes": []}

    def __init__(self, scenario, *, overrides=None, signals=("rtt",), delay_weight=0.5):
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        low = np.array([0, 0, 0, 0, -1], np.float32)
        self.observation_space = gymnasium.spaces.Box(low, np.full(5, np.inf, np.float32), dtype=np.float32)
        self._scenario, self._overrides = scenario, overrides
        self._signals, self._delay_weight = list(signals), delay_weight
        self._thread = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.close()
        # Without a seed, the episodes differ.
        run_seed = int(seed) if seed is not None else int(self.np_random.integers(1, 2**31))
        self._actions, self._steps = queue.Queue(), queue.Queue()
        self._is_over = False
        self._thread = threading.Thread(target=self._simulate, args=(run_seed,), daemon=True)
        self._thread.start()
        observation, _, is_over, info = self._next()
        if is_over:
            raise RuntimeError("no flow of the scenario had a round trip; use a longer `stop`")
        return observation, info

    def step(self, action):
        if self._thread is None or self._is_over:
            raise RuntimeError("the episode is over; call reset()")
        exponent = float(np.clip(np.asarray(action, dtype=float).ravel()[0], -1.0, 1.0))
        self._actions.put(2.0**exponent)
        observation, reward, is_over, info = self._next()
        # The end of the run is a time limit and not a state of the network.
        return observation, reward, False, is_over, info

    def close(self):
        if self._thread is None:
            return
        if self._thread.is_alive():
            self._actions.put(None)
        self._thread.join()
        self._thread = None

    def _next(self):
        step = self._steps.get()
        if isinstance(step, BaseException):
            raise step
        if step is None:
            self._is_over = True
            return self._last, 0.0, True, dict(self._last_info)
        self._last, reward, self._last_info = step
        return self._last, reward, False, dict(self._last_info)

    def _simulate(self, seed):
        self._last = np.zeros(5, np.float32)
        self._last_info = {"flow": 0, "now_ns": 0, "window_packets": 0.0}
        flows = iter(range(2**62))
        try:
            _core.run(
                self._scenario,
                laws=["agent"],
                python_laws=[("agent", lambda path: _AgentLaw(self, next(flows), path), self._signals)],
                seeds=range(seed, seed + 1),
                overrides=self._overrides,
                jobs=1,
                quick=False,
                rows=False,
                on_progress=None,
            )
            self._steps.put(None)
        except _Stopped:
            pass
        except BaseException as error:  # The thread of the agent raises it.
            self._steps.put(error)


class _AgentLaw:
    """Collects the ACKs of a round trip and asks the agent at its end."""

    def __init__(self, env, flow, path):
        self._env, self._flow, self._path = env, flow, path
        self._bdp_bytes = path.bdp_packets * path.mtu_bytes
        self.window_packets = max(1.0, min(path.bdp_packets, _MAX_WINDOW))
        self._end_seq = 0
        self._begin(0)

    def _begin(self, now_ns):
        self._began_ns = now_ns
        self._rtts, self._bytes, self._marked, self._hop_delay = [], 0, 0, -1.0

    def on_ack(self, ack):
        self._rtts.append(ack.rtt_ns)
        self._bytes += ack.acked_bytes
        self._marked += ack.marked_bytes
        if ack.max_hop_delay_ns is not None:
            self._hop_delay = max(self._hop_delay, ack.max_hop_delay_ns / self._path.base_rtt_ns)
        # A round trip ends with the ACK of a packet that was sent after the last one ended.
        if ack.acked_seq < self._end_seq:
            return None
        self._end_seq = ack.next_seq
        self._env._steps.put(self._observe(ack.now_ns))
        factor = self._env._actions.get()
        if factor is None:
            raise _Stopped
        self.window_packets = min(max(self.window_packets * factor, _MIN_WINDOW), _MAX_WINDOW)
        self._begin(ack.now_ns)
        return self.window_packets

    def on_loss(self, now_ns):
        self.window_packets = max(self.window_packets / 2, _MIN_WINDOW)
        return self.window_packets

    def on_timeout(self, now_ns):
        self.window_packets = 1.0
        return self.window_packets

    def _observe(self, now_ns):
        base = self._path.base_rtt_ns
        mean_rtt = sum(self._rtts) / len(self._rtts)
        marked = self._marked / self._bytes if self._bytes else 0.0
        values = [min(self._rtts) / base, mean_rtt / base, self._bytes / self._bdp_bytes, marked, self._hop_delay]
        seconds = max(now_ns - self._began_ns, 1) * 1e-9
        share = 8 * self._bytes / seconds / self._path.line_rate_bps
        reward = share - self._env._delay_weight * max(mean_rtt - base, 0) / base
        info = {"flow": self._flow, "now_ns": now_ns, "window_packets": self.window_packets}
        return np.array(values, np.float32), float(reward), info
