// The view of the model. Text is inserted as text, never as markup. Changes are drawn once per frame, however
// many records caused them.

import { pretty } from './json.js';

const logLines = 14;
const hiddenTabDelay = 200; // a hidden tab has no frames; tests and titles need it drawn nevertheless

export class View {
  constructor(model, places, onDrawn) {
    this.model = model;
    this.places = places; // elements: main, session, states, sources, log
    this.following = true; // the end is kept visible until the user scrolls away
    this.onDrawn = onDrawn;
    this.drawnParts = new Map();
    this.drawnAgents = new Map();
    this.drawnStates = new Map();
    this.sourcesShown = 0;
    this.place = null; // scroll position after the next draw, null to keep the current one
    this.scheduled = false;
  }

  // clear removes everything after a reset of the model. The scroll position is restored by the next draw.
  clear() {
    this.place ??= { following: this.following, y: window.scrollY };
    this.drawnParts.clear();
    this.drawnAgents.clear();
    this.drawnStates.clear();
    this.sourcesShown = 0;
    this.places.session.replaceChildren();
    this.places.states.replaceChildren();
    this.places.sources.replaceChildren();
    this.places.log.replaceChildren();
  }

  // schedule draws soon.
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    let frame = 0;
    let timer = 0;
    const draw = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      this.scheduled = false;
      this.draw();
    };
    frame = requestAnimationFrame(draw);
    timer = setTimeout(draw, hiddenTabDelay);
  }

  draw() {
    const place = this.place;
    this.place = null;
    if (place) this.following = place.following;
    const changed = [...this.model.changed];
    this.model.changed.clear();
    for (const item of changed) if (item.kind !== 'agent') this.drawPart(item);
    for (const item of changed) if (item.kind === 'agent') this.drawAgent(item);
    this.drawSources();
    this.drawLog();
    if (this.following && this.model.status === 'active') this.toEnd();
    else if (place) window.scrollTo(0, place.y);
    this.onDrawn();
  }

  // scrolled handles scrolling by the user. Only that changes `following`: an image that loads late moves the
  // end as well.
  scrolled() {
    if (!this.place) this.following = this.beyond() < 160;
  }

  // beyond returns the distance from the visible area to the end, in pixels.
  beyond() {
    return this.places.main.getBoundingClientRect().bottom - window.innerHeight;
  }

  toEnd() {
    const beyond = this.beyond();
    if (beyond > 0) window.scrollBy(0, beyond + 24);
  }

  agent(agent) {
    let drawn = this.drawnAgents.get(agent);
    if (drawn) return drawn;
    const name = el('span', 'agent-name');
    const status = el('span', 'pill');
    const parts = el('div', 'parts');
    const root = el('article', 'agent', el('header', 'agent-head', name, status), parts);
    root.dataset.session = agent.id;
    root.classList.toggle('root', agent.id === this.model.root);
    drawn = { root, name, status, parts, live: null };
    this.drawnAgents.set(agent, drawn);
    if (!agent.parent) this.places.session.append(root);
    return drawn;
  }

  drawAgent(agent) {
    const drawn = this.agent(agent);
    setText(drawn.name, agent.type || 'agent');
    drawn.name.title = agent.id;
    setText(drawn.status, agent.status);
    drawn.status.dataset.phase = agent.status;
    if (agent.status !== 'active') this.setLive(drawn, null);
    this.drawState(agent);
  }

  setLive(drawn, element) {
    if (drawn.live === element) return;
    drawn.live?.classList.remove('live');
    element?.classList.add('live');
    drawn.live = element;
  }

  drawPart(part) {
    const agent = this.agent(part.agent);
    let drawn = this.drawnParts.get(part);
    const draw = drawers[part.kind];
    if (!drawn) {
      drawn = draw.make(part);
      this.drawnParts.set(part, drawn);
      agent.parts.append(drawn.root);
    }
    draw.update(drawn, part, this);
    const growing = (part.kind === 'text' || part.kind === 'thinking') && !part.closed;
    if (part === part.agent.parts.at(-1)) this.setLive(agent, growing && part.agent.status === 'active' ? drawn.root : null);
  }

  drawState(agent) {
    let drawn = this.drawnStates.get(agent);
    if (agent.state === null || drawn?.state === agent.state) return;
    if (!drawn) {
      drawn = { json: el('pre', 'json') };
      this.drawnStates.set(agent, drawn);
      const block = el('div', 'state', el('h3', '', agent.type || agent.id), drawn.json);
      if (agent.id === this.model.root) this.places.states.prepend(block);
      else this.places.states.append(block);
    }
    drawn.state = agent.state;
    setText(drawn.json, pretty(agent.state));
    drawn.json.animate?.([{ backgroundColor: 'var(--flash)' }, {}], { duration: 900, easing: 'ease-out' });
  }

  drawSources() {
    for (const source of this.model.sources.slice(this.sourcesShown)) {
      const title = source.url ? link(source.url, source.title) : el('span', '', source.title);
      const detail = source.kind === 'url' ? source.url : [source.filename, source.mediaType].filter(Boolean).join(' · ');
      this.places.sources.append(el('li', source.kind, title, el('small', '', detail)));
    }
    this.sourcesShown = this.model.sources.length;
  }

  drawLog() {
    const records = this.model.log.slice(-logLines);
    const list = this.places.log;
    while (list.childElementCount < records.length) list.append(el('li', '', el('b'), el('span'), el('small')));
    records.forEach((record, i) => {
      const [number, type, agent] = list.children[i].children;
      setText(number, String(record.sequence));
      setText(type, record.type);
      setText(agent, record.agentType ?? '');
    });
  }
}

// The views of the parts: make creates an element, update fills it.
const drawers = {
  user: {
    make: () => { const text = el('p', 'said'); return { root: el('div', 'user', text), text }; },
    update: (d, part) => {
      setText(d.text, part.text);
      for (const file of part.files ?? []) d.root.append(fileOf(file));
      part.files = [];
    },
  },
  text: {
    // Trailing line breaks stay in the text but are not visible: the next part has its own margin.
    make: () => {
      const node = document.createTextNode('');
      const tail = el('span', 'tail');
      const root = el('div', 'text', el('span', '', node), tail);
      return { root, node, tail };
    },
    update: (d, part) => {
      const end = part.text.length - /\n*$/.exec(part.text)[0].length;
      grow(d.node, part.text.slice(0, end));
      setText(d.tail, part.text.slice(end));
    },
  },
  thinking: {
    make: () => {
      const node = document.createTextNode('');
      const body = el('div', 'thought');
      body.append(node);
      const label = el('summary', '');
      const root = el('details', 'thinking', label, body);
      root.open = true;
      return { root, node, label, closed: false };
    },
    update: (d, part) => {
      grow(d.node, part.text);
      setText(d.label, part.closed ? 'Thought' : 'Thinking');
      if (part.closed && !d.closed) {
        d.closed = true;
        d.root.open = false;
      }
    },
  },
  tool: {
    make: makeTool,
    update: updateTool,
  },
  child: {
    make: () => ({ root: el('div', 'child') }),
    update: (d, part, view) => d.root.append(view.agent(part.child).root),
  },
  custom: {
    make: () => ({ root: el('div', 'custom') }),
    update: (d, part) => {
      const { done, of, label } = part.data ?? {};
      if (part.name === 'progress' && Number.isFinite(done) && of > 0) {
        const bar = el('progress', '');
        bar.max = of;
        bar.value = done;
        d.root.replaceChildren(el('span', '', String(label ?? part.name)), bar, el('small', '', `${done} of ${of}`));
      } else {
        d.root.replaceChildren(el('span', '', part.name), el('code', '', JSON.stringify(part.data ?? null)));
      }
    },
  },
  output: {
    make: (part) => ({ root: el('div', 'output', el('h3', '', 'Result'), el('pre', 'json', pretty(part.data))) }),
    update: () => {},
  },
  file: {
    make: (part) => ({ root: fileOf(part) }),
    update: () => {},
  },
  event: {
    make: (part) => { const root = el('div', 'event', part.text); root.dataset.tone = part.tone; return { root }; },
    update: () => {},
  },
};

function makeTool(part) {
  const name = el('code', 'tool-name');
  const pill = el('span', 'pill');
  const args = el('pre', 'json args');
  const node = document.createTextNode('');
  args.append(node);
  const notes = el('ul', 'notes');
  const result = el('pre', 'json result');
  const error = el('p', 'tool-error');
  const child = el('div', 'child');
  const root = el('details', 'tool', el('summary', '', name, pill), args, notes, child, error, result);
  root.open = true;
  name.title = part.id;
  return { root, name, pill, node, notes, result, error, child, input: undefined };
}

const phaseNames = { streaming: 'writing arguments', running: 'running', asking: 'asking', done: 'done', failed: 'failed' };

function updateTool(d, part, view) {
  setText(d.name, part.name || part.id);
  setText(d.pill, phaseNames[part.phase] ?? part.phase);
  d.pill.dataset.phase = part.phase;
  d.root.dataset.phase = part.phase;
  if (part.input === undefined) grow(d.node, part.args);
  else if (d.input !== part.input) {
    d.input = part.input;
    d.node.data = pretty(part.input);
  }
  while (d.notes.childElementCount < part.notes.length) d.notes.append(el('li', '', part.notes[d.notes.childElementCount]));
  setText(d.error, part.phase === 'failed' && part.error ? `${part.error}${part.errorCode ? ` (${part.errorCode})` : ''}` : '');
  setText(d.result, part.phase === 'done' && part.result !== undefined ? pretty(part.result) : '');
  if (part.child && !d.child.firstChild) {
    d.child.append(view.agent(part.child).root);
    d.root.classList.add('with-child');
  }
}

function fileOf({ url, mediaType, filename }) {
  const caption = el('figcaption', '', link(url, filename ?? mediaType), el('small', '', mediaType));
  if (!/^data:image\//i.test(url)) return el('figure', 'file', caption);
  const image = el('img', '');
  image.src = url; // an image runs no scripts, not even an SVG one
  image.alt = filename ?? '';
  return el('figure', 'file', image, caption);
}

// link returns a link for http, https and data URLs; any other URL, above all a script, is shown as text.
function link(url, text) {
  if (!/^(https?:\/\/|data:)/i.test(url)) return el('span', '', text);
  const a = el('a', '', text);
  a.href = url;
  a.rel = 'noopener noreferrer';
  if (/^data:/i.test(url)) a.download = text;
  else a.target = '_blank';
  return a;
}

// grow appends the new text to a text node: the cost is that of the delta.
function grow(node, text) {
  if (text.length > node.length) node.appendData(text.slice(node.length));
  else if (text.length < node.length) node.data = text;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// el creates an element; strings among its children become text.
export function el(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}
