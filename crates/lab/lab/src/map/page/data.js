"use strict";
// The data of the page: the network, the flows and the samples. A channel is one direction of a link, or of a bundle of links.

const byId = (id) => document.getElementById(id);

/** Decompresses an embedded block. */
async function decode(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Loads the embedded data. */
async function loadData() {
  const net = JSON.parse(new TextDecoder().decode(await decode("description")));
  const bytes = await decode("samples");
  const size = net.channels.length * net.steps;
  if (bytes.length !== 5 * size) throw new Error("the samples do not match the network");
  const column = (index) => bytes.subarray(index * size, (index + 1) * size);
  const wide = (index, unit) => {
    const [low, high] = [column(index), column(index + 1)];
    const values = new Float64Array(size);
    for (let i = 0; i < size; i++) values[i] = (low[i] | (high[i] << 8)) * unit;
    return values;
  };
  const data = { net, loads: column(0), queues: wide(1, net.queue_unit), delays: wide(3, net.delay_unit) };
  data.maxQueue = data.queues.reduce((max, queue) => Math.max(max, queue), 0);
  // The longest queue of any port in each step.
  data.worst = new Float64Array(net.steps);
  for (let i = 0; i < size; i++) data.worst[i % net.steps] = Math.max(data.worst[i % net.steps], data.queues[i]);
  return data;
}

const DOWN = 255;

/** Returns the load of a channel in a step as a share, or null while its links are down. */
function loadAt(data, channel, step) {
  const code = data.loads[channel * data.net.steps + step];
  return code === DOWN ? null : code / 200;
}
const queueAt = (data, channel, step) => data.queues[channel * data.net.steps + step];
const delayAt = (data, channel, step) => data.delays[channel * data.net.steps + step];
const channelName = (channel) => `${channel.names[0]} → ${channel.names[1]}`;

/** Returns the first and last picosecond of a step. */
function stepTimes(net, step) {
  return [net.start_ps + step * net.step_ps, Math.min(net.start_ps + (step + 1) * net.step_ps, net.end_ps)];
}

/** Returns the step that contains a time. A time at the end of a step belongs to it. */
function stepOf(net, ps) {
  return Math.max(0, Math.min(net.steps - 1, Math.ceil((ps - net.start_ps) / net.step_ps) - 1));
}

function digits(value) {
  const size = Math.abs(value);
  return size === 0 ? "0" : size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function withUnit(value, units) {
  // The smallest unit has no parts: 64 B, 800 ps.
  const [size, unit] = units.find(([size]) => Math.abs(value) >= size) ?? units[units.length - 1];
  return `${size === 1 ? value.toFixed(0) : digits(value / size)} ${unit}`;
}

const formatBytes = (bytes) => withUnit(bytes, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
const formatRate = (bps) => withUnit(bps, [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]]);
const TIME_UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "us"], [1e3, "ns"], [1, "ps"]];
const formatTime = (ps) => (ps === 0 ? "0" : withUnit(ps, TIME_UNITS));
const formatDelay = (ns) => formatTime(ns * 1e3);
const formatLoad = (load) => (load === null ? "down" : `${(load * 100).toFixed(load < 0.0995 ? 1 : 0)} %`);

/** Returns a function that formats times of the run with as many digits as a step needs. */
function clockFormat(net) {
  const [size, unit] = TIME_UNITS.find(([size]) => net.end_ps >= size) || [1, "ps"];
  const places = Math.max(0, Math.min(6, Math.ceil(-Math.log10(net.step_ps / size))));
  return (ps) => `${(ps / size).toFixed(places)} ${unit}`;
}

/** Describes a channel in a step. */
function describeChannel(data, index, step) {
  const channel = data.net.channels[index];
  const load = loadAt(data, index, step);
  if (load === null) return `${channelName(channel)}: the link is down`;
  const bundle = channel.ports > 1 ? ` (${channel.ports} links)` : "";
  const queue = `${channel.ports > 1 ? "worst queue" : "queue"} ${formatBytes(queueAt(data, index, step))}`;
  const delay = `delay ${formatDelay(delayAt(data, index, step))}`;
  return `${channelName(channel)}${bundle}: load ${formatLoad(load)} of ${formatRate(channel.bps)}, ${queue}, ${delay}`;
}
