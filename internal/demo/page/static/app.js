// The page: the session that is shown, the scenarios, and the gauges.

import { Feed } from './feed.js';
import { request } from './login.js';
import { Model } from './model.js';
import { load } from './snapshot.js';
import { View, el } from './view.js';
import * as past from './past.js';

const $ = (id) => document.getElementById(id);
const sessionShape = /^[\w.~:/?#[\]@!$&'()+,;=%-]{1,64}$/;

let feed = null;
let shown = null; // {id, model, view} of the session on the page

function sessionInAddress() {
  let id = location.hash.slice(1);
  try {
    id = decodeURIComponent(id);
  } catch {
    // typed by hand
  }
  return sessionShape.test(id) ? id : '';
}

// show follows a session. It waits for a session that was just requested; the end of a run at or before
// `beyond` is ignored.
function show(id, { expected = false, beyond = 0 } = {}) {
  feed?.stop();
  feed = null;
  $('intro').hidden = id !== '';
  $('notices').replaceChildren();
  $('second').href = id ? `#${encodeURIComponent(id)}` : './';
  $('session-name').textContent = id;
  if (shown?.id !== id) {
    const model = new Model(id);
    const view = new View(model, { main: $('main'), session: $('session'), states: $('states'), sources: $('sources'), log: $('log') }, drawn);
    shown = { id, model, view };
    view.clear();
  }
  if (!id) {
    shown = null;
    setConnection('idle', 'idle');
    return drawn();
  }
  const { model, view } = shown;
  let resets = 0;
  const mine = new Feed(id, {
    onReset(root, children) {
      model.reset();
      view.clear();
      load(model, id, root);
      for (const [child, c] of children) {
        const agent = model.agent(child, c.type);
        model.place(model.agent(c.parent ?? id), agent, c.callId);
        load(model, child, c.snapshot);
      }
      if (resets++ > 0) notice(`Reloaded from the snapshot at ${model.sequence}: part of the output was rolled back.`);
      view.schedule();
    },
    onEvent(event, sequence) {
      accept(model, event, sequence);
      view.schedule();
    },
    onConnection: setConnection,
    isOver: () => (model.status === 'ended' || model.status === 'failed') && model.sequence > beyond,
  });
  feed = mine;
  drawn();
  mine.run(expected).catch((err) => setConnection('broken', String(err)));
}

// accept handles an event of the stream. Stream events concern the root; its records report the end of a
// sub-agent.
function accept(model, event, sequence) {
  if (event.type === 'chunk') return model.apply(event.chunk, event.sequence ?? sequence);
  if (!model.saw(model.root, sequence)) return;
  model.note(sequence, event.type === 'status' ? `stream_${event.status}` : `stream_${event.type}`, model.agent(model.root).type);
  switch (event.type) {
    case 'end': return model.setStatus('ended');
    case 'fail':
      model.event(model.agent(model.root), event.error, 'bad');
      return model.setStatus('failed');
    case 'status': return model.setStatus(event.status);
  }
}

// drawn updates the gauges, and the state for tests, after the text is on the page.
function drawn() {
  const model = shown?.model;
  const status = model?.status ?? 'idle';
  document.body.dataset.status = status;
  document.body.dataset.sequence = String(model?.sequence ?? 0);
  $('run-status').hidden = !model;
  $('run-status').textContent = status;
  $('run-status').dataset.phase = status;
  $('sequence').hidden = !model?.sequence;
  $('sequence').textContent = `# ${model?.sequence ?? 0}`;
  $('log-section').hidden = !model;
  $('state-section').hidden = !$('states').childElementCount;
  $('sources-section').hidden = !$('sources').childElementCount;
  $('to-end').hidden = status !== 'active' || shown.view.following;
  document.title = model ? `${status === 'active' ? '● ' : ''}${past.titleOf(shown.id) || shown.id.slice(0, 8)} · Tailrace` : 'Tailrace';
}

function setConnection(state, text) {
  $('connection').dataset.connection = state;
  $('connection').querySelector('.label').textContent = text;
  document.body.dataset.connection = state;
  if (state === 'missing') notice('There is no such session. It may have expired.');
}

function notice(text) {
  const line = el('p', 'notice', text);
  $('notices').replaceChildren(line);
  setTimeout(() => line.remove(), 12000);
}

// The scenarios.

async function loadScenarios() {
  try {
    const response = await request('/v1/demo/scenarios');
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const { scenarios } = await response.json();
    $('scenarios').replaceChildren(...scenarios.map(scenarioButton));
  } catch (err) {
    const again = el('button', 'plain', 'Try again');
    again.onclick = loadScenarios;
    $('scenarios').replaceChildren(el('p', 'quiet', `The scenarios cannot be loaded: ${err.message}`), again);
  }
}

function scenarioButton(scenario) {
  const button = el('button', 'scenario', el('b', '', scenario.title), el('span', '', scenario.summary));
  button.type = 'button';
  button.dataset.scenario = scenario.name;
  button.onclick = () => start(scenario, button);
  return button;
}

async function start(scenario, button) {
  const same = $('same-session').checked && shown ? shown.id : undefined;
  const beyond = same ? shown.model.sequence : 0;
  button.disabled = true;
  try {
    const response = await request('/v1/demo/runs', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ scenario: scenario.name, session: same }),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.detail ?? answer.title ?? `the server answered ${response.status}`);
    past.remember(answer.session, scenario.title);
    drawPast();
    if (sessionInAddress() !== answer.session) history.pushState(null, '', `#${encodeURIComponent(answer.session)}`);
    show(answer.session, { expected: true, beyond });
  } catch (err) {
    notice(`The agent could not be started: ${err.message}`);
  } finally {
    button.disabled = false;
  }
}

function drawPast() {
  const sessions = past.list();
  $('past-section').hidden = sessions.length === 0;
  $('past-list').replaceChildren(...sessions.map(({ id, title, at }) => {
    const a = el('a', '', el('span', '', title), el('small', '', new Date(at).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })));
    a.href = `#${encodeURIComponent(id)}`;
    a.title = id;
    if (id === sessionInAddress()) a.setAttribute('aria-current', 'true');
    return el('li', '', a);
  }));
}

function showAddress() {
  const id = sessionInAddress();
  drawPast();
  if (id !== (shown?.id ?? '') || !feed) show(id, { expected: past.isFresh(id) });
}

$('reload').onclick = () => location.reload();
$('forget').onclick = () => { past.forget(); drawPast(); };
$('to-end').onclick = () => shown?.view.toEnd();
window.addEventListener('hashchange', showAddress);
window.addEventListener('popstate', showAddress);
window.addEventListener('scroll', () => {
  shown?.view.scrolled();
  $('to-end').hidden = shown?.model.status !== 'active' || shown.view.following;
}, { passive: true });
window.addEventListener('storage', drawPast); // another tab started one
window.addEventListener('pagehide', () => { feed?.stop(); feed = null; });
window.addEventListener('pageshow', (event) => { if (event.persisted) showAddress(); });

loadScenarios();
showAddress();
