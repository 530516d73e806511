// Completions for scenario texts, from the JSON schema and the lists of names.

/** Answers which keys and values are valid at a place in a scenario. */
class Completer {
  constructor(schema, names) {
    this.schema = schema;
    this.names = names;
  }

  /** Returns the alternatives of a schema, without references. */
  alternatives(node, depth = 0) {
    if (!node || typeof node !== "object" || depth > 8) return [];
    if (node.$ref) {
      const name = node.$ref.split("/").pop();
      return name === "Variable" ? [] : this.alternatives(this.schema.$defs?.[name], depth + 1);
    }
    const nested = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])];
    const own = nested.length === 0 || node.properties ? [node] : [];
    return [...own, ...nested.flatMap((inner) => this.alternatives(inner, depth + 1))];
  }

  /** Returns the schemas of the table at a path. */
  tablesAt(path) {
    let tables = this.alternatives(this.schema);
    for (const key of path) {
      const inner = tables.flatMap((table) => {
        const property = table.properties?.[key];
        return this.alternatives(property ?? (property === undefined ? table.additionalProperties : null));
      });
      tables = inner.flatMap((node) => (node.type === "array" ? this.alternatives(node.items) : [node]));
    }
    return tables.filter((table) => table.properties || table.additionalProperties);
  }

  /** Returns the keys of the table at a path. `kind` selects a variant of the table. */
  keysAt(path, kind) {
    const tables = this.tablesAt(path);
    const matching = tables.filter((table) => table.properties?.kind?.const === kind);
    const keys = new Map();
    for (const table of kind && matching.length > 0 ? matching : tables) {
      for (const [name, property] of Object.entries(table.properties ?? {})) {
        if (!keys.has(name)) keys.set(name, { name, detail: describe(property) });
      }
    }
    return [...keys.values()];
  }

  /** Returns the tables that a header can open. */
  headers() {
    const result = [];
    for (const [name, property] of Object.entries(this.schema.properties ?? {})) {
      const nodes = this.alternatives(property);
      const isList = nodes.some((node) => node.type === "array" && this.alternatives(node.items).some((item) => item.properties));
      const isTable = nodes.some((node) => node.properties || (node.type === "object" && node.additionalProperties));
      if (isList || isTable) result.push({ name: isList ? `[[${name}]]` : `[${name}]`, detail: describe(property) });
      if (name === "observe") {
        for (const inner of ["queues", "buffers", "links", "classes"]) {
          result.push({ name: `[observe.${inner}]`, detail: this.keysAt(["observe"]).find((key) => key.name === inner)?.detail ?? "" });
        }
      }
    }
    return result;
  }

  /** Returns the known values of a key. */
  valuesAt(path, key, context) {
    const nodes = this.tablesAt(path).flatMap((table) => this.alternatives(table.properties?.[key]));
    const values = [];
    for (const node of nodes) {
      for (const value of [node.const, ...(node.enum ?? [])]) {
        if (typeof value === "string") values.push({ name: value, detail: node.description ?? "", isText: true });
      }
      const types = [node.type].flat();
      if (types.includes("boolean")) values.push({ name: "true", detail: "" }, { name: "false", detail: "" });
    }
    values.push(...this.namesFor(path, key, context));
    const seen = new Set();
    return values.filter((value) => !seen.has(value.name) && seen.add(value.name));
  }

  /** Returns the registered names that a key takes. */
  namesFor(path, key, context) {
    const list = (kind, filter = () => true) =>
      (this.names[kind] ?? []).filter(filter).map((entry) => ({ name: entry.name, detail: entry.description, isText: true }));
    if (key === "law" || key === "base") return [...context.ownLaws.map((name) => ({ name, detail: "defined in [laws]", isText: true })), ...list("laws")];
    if (key === "sizes") return list("workloads");
    if (key === "algorithm") return list("collectives");
    if (key === "policy") {
      const switchKey = path[path.length - 1];
      return list("policies", (entry) => !["buffer", "mark"].includes(switchKey) || entry.of === switchKey);
    }
    if (key === "by" || key === "along") return context.sweeps.map((name) => ({ name, detail: "a sweep of this scenario", isText: true }));
    if (key === "metric" || key === "reference") return this.metricNames(context);
    if (path[0] === "observe" && path[1] === "queues") {
      return context.traffic.flatMap((name) => [`last hop of ${name}`, `hop 1 of ${name}`]).map((name) => ({ name, detail: "", isText: true }));
    }
    return [];
  }

  /** Returns the metrics of the traffic and the queues of the scenario. */
  metricNames(context) {
    const result = [];
    for (const entry of this.names.metrics ?? []) {
      const owners = entry.of === "queues" ? context.queues : entry.of === "run" ? ["run"] : entry.of === "buffers" ? [] : context.traffic;
      for (const owner of owners) result.push({ name: `${owner}.${entry.name}`, detail: entry.description, isText: true });
    }
    return result;
  }

  /** Returns the completions at a position: the start of the replaced text, and the options. */
  complete(text, position) {
    const context = readContext(text, position);
    const { before, path, keys, kind } = context;
    const result = (prefix, options, insert) => ({
      from: position - prefix.length,
      options: rank(options, prefix).slice(0, 60).map((option) => ({ ...option, insert: insert(option) })),
    });
    const header = /^\s*(\[\[?[\w.-]*)$/.exec(before);
    if (header) return result(header[1], this.headers(), (option) => option.name);
    const key = /^\s*([\w-]*)$/.exec(before);
    if (key) {
      const unused = this.keysAt(path, kind).filter((option) => !keys.has(option.name) || option.name === key[1]);
      const tables = key[1] === "" ? this.headers() : [];
      return result(key[1], [...unused, ...tables], (option) => (option.name.startsWith("[") ? option.name : `${option.name} = `));
    }
    const value = /^\s*([\w-]+|"[^"]*")\s*=\s*(.*)$/.exec(before);
    if (!value) return null;
    let [, name, rest] = value;
    let tablePath = path;
    const inline = /\{([^{}]*)$/.exec(rest);
    if (inline) {
      tablePath = [...path, name];
      const part = inline[1].split(",").pop();
      const nestedKey = /^\s*([\w-]*)$/.exec(part);
      if (nestedKey) return result(nestedKey[1], this.keysAt(tablePath), (option) => `${option.name} = `);
      const nested = /^\s*([\w-]+)\s*=\s*(.*)$/.exec(part);
      if (!nested) return null;
      [, name, rest] = nested;
    }
    const isOpen = (rest.match(/"/g) ?? []).length % 2 === 1;
    // A text that has its closing quote is complete.
    if (!isOpen && /"\s*$/.test(rest)) return null;
    const prefix = isOpen ? rest.slice(rest.lastIndexOf('"') + 1) : /[\w.-]*$/.exec(rest)[0];
    const closing = text[position] === '"' ? "" : '"';
    const insert = (option) => (isOpen ? option.name + closing : option.isText ? `"${option.name}"` : option.name);
    return result(prefix, this.valuesAt(tablePath, name, context), insert);
  }
}

/** Returns the first sentence of a description. */
function describe(node) {
  return (node?.description ?? "").split("\n").join(" ");
}

/** Keeps the options that contain the prefix; those that begin with it come first. */
function rank(options, prefix) {
  const wanted = prefix.toLowerCase();
  const begins = (option) => option.name.toLowerCase().startsWith(wanted);
  const contains = (option) => option.name.toLowerCase().includes(wanted);
  return [...options.filter(begins), ...options.filter((option) => !begins(option) && contains(option))];
}

const HEADER = /^\s*\[\[?\s*([^\]]+?)\s*\]\]?/;

/** Finds the table at a position, its keys, and the names that the scenario defines. */
function readContext(text, position) {
  const lines = text.split("\n");
  const index = text.slice(0, position).split("\n").length - 1;
  const before = text.slice(text.lastIndexOf("\n", position - 1) + 1, position);
  let first = index;
  while (first >= 0 && !(first < index && HEADER.test(lines[first]))) first -= 1;
  const path = first >= 0 ? HEADER.exec(lines[first])[1].split(".").map((part) => part.trim().replace(/^"|"$/g, "")) : [];
  let last = index + 1;
  while (last < lines.length && !HEADER.test(lines[last])) last += 1;
  const keys = new Map();
  for (const line of lines.slice(first + 1, last)) {
    const found = /^\s*([\w-]+)\s*=\s*(.*)$/.exec(line);
    if (found) keys.set(found[1], found[2]);
  }
  const kind = /^"([^"]*)"/.exec(keys.get("kind") ?? "")?.[1];
  return { before, path, keys, kind, ...definedNames(lines) };
}

/** Returns the names of the traffic, the queues, the sweeps and the laws that a scenario defines. */
function definedNames(lines) {
  const names = { traffic: [], queues: [], sweeps: [], ownLaws: [] };
  let table = "";
  for (const line of lines) {
    const header = HEADER.exec(line);
    if (header) {
      table = header[1];
      if (table.startsWith("laws.")) names.ownLaws.push(table.slice(5));
      if (table.startsWith("sweep.") && !names.sweeps.includes(table.slice(6))) names.sweeps.push(table.slice(6));
    }
    const name = /^\s*name\s*=\s*"([^"]+)"/.exec(line);
    const key = /^\s*([\w-]+)\s*=/.exec(line);
    if (table === "traffic" && name) names.traffic.push(name[1]);
    if (table === "observe.queues" && key) names.queues.push(key[1]);
    if (table === "sweep" && key) names.sweeps.push(key[1]);
  }
  return names;
}
