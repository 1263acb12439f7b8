// JSON with exact numbers, and JSON Patch.

// parse parses JSON. A number that a double would change (a large integer, a long fraction) keeps its text,
// if the browser supports that.
export function parse(text) {
  if (typeof JSON.rawJSON !== 'function' || !/\d{16}|\d[eE.]\d/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value, context) =>
    typeof value === 'number' && context?.source !== undefined && String(value) !== context.source
      ? JSON.rawJSON(context.source) : value);
}

// pretty formats JSON, on one line if it is short.
export function pretty(value) {
  const line = JSON.stringify(value ?? null, null, 1).replace(/\n */g, ' ');
  return line.length <= 72 ? line : JSON.stringify(value, null, 2);
}

// patched returns the document after all operations of an RFC 6902 patch. The argument is not changed; if an
// operation fails, none is applied (it throws).
export function patched(doc, operations) {
  const holder = { doc: copy(doc ?? {}) };
  for (const op of operations) {
    switch (op.op) {
      case 'add': add(holder, op.path, copy(op.value)); break;
      case 'remove': remove(holder, op.path); break;
      case 'replace': replace(holder, op.path, copy(op.value)); break;
      case 'move': {
        const value = remove(holder, op.from);
        add(holder, op.path, value);
        break;
      }
      case 'copy': add(holder, op.path, copy(at(holder, op.from))); break;
      case 'test':
        if (canonical(at(holder, op.path)) !== canonical(op.value)) throw new Error(`test of ${op.path} failed`);
        break;
      default: throw new Error(`unknown operation ${op.op}`);
    }
  }
  return holder.doc;
}

function isRaw(value) {
  return typeof JSON.isRawJSON === 'function' && JSON.isRawJSON(value);
}

function copy(value) {
  if (value === null || typeof value !== 'object' || isRaw(value)) return value;
  if (Array.isArray(value)) return value.map(copy);
  const out = Object.create(null); // "__proto__" is a name like any other
  for (const name of Object.keys(value)) out[name] = copy(value[name]);
  return out;
}

function canonical(value) {
  if (value === undefined) return 'undefined';
  if (value === null || typeof value !== 'object' || isRaw(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join()}}`;
}

// steps returns the names on the path to a value, below the one member of a holder.
function steps(pointer) {
  if (pointer === '') return ['doc'];
  if (typeof pointer !== 'string' || pointer[0] !== '/') throw new Error(`bad pointer ${pointer}`);
  return ['doc', ...pointer.slice(1).split('/').map((s) => s.replaceAll('~1', '/').replaceAll('~0', '~'))];
}

function walk(holder, path) {
  let node = holder;
  for (const name of path) node = child(node, name);
  return node;
}

function child(node, name) {
  if (Array.isArray(node)) return node[index(node, name, node.length - 1)];
  if (node === null || typeof node !== 'object' || isRaw(node) || !Object.hasOwn(node, name)) throw new Error(`nothing at ${name}`);
  return node[name];
}

function index(list, name, most) {
  const i = name === '-' ? list.length : /^(0|[1-9]\d*)$/.test(name) ? Number(name) : NaN;
  if (!(i <= most)) throw new Error(`no index ${name}`);
  return i;
}

function at(holder, pointer) {
  return walk(holder, steps(pointer));
}

function parentOf(holder, pointer) {
  const path = steps(pointer);
  const name = path.pop();
  const parent = walk(holder, path);
  if (parent === null || typeof parent !== 'object' || isRaw(parent)) throw new Error(`nothing can be put at ${pointer}`);
  return [parent, name];
}

function add(holder, pointer, value) {
  const [parent, name] = parentOf(holder, pointer);
  if (Array.isArray(parent)) parent.splice(index(parent, name, parent.length), 0, value);
  else parent[name] = value;
}

function remove(holder, pointer) {
  const [parent, name] = parentOf(holder, pointer);
  const value = child(parent, name);
  if (Array.isArray(parent)) parent.splice(Number(name), 1);
  else delete parent[name];
  return value;
}

function replace(holder, pointer, value) {
  const [parent, name] = parentOf(holder, pointer);
  child(parent, name); // it must be there
  parent[name] = value;
}
