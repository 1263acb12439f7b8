// The connection: snapshots first, then the stream of events after them, and again from the start when the
// cursor is no longer valid.

import { parse } from './json.js';
import { request } from './login.js';

const firstDelay = 250;
const longestDelay = 5000;
const maxMissing = 20; // attempts to load a session that this page has not started

// Feed follows one session. It calls
//   onReset(root, children)   with new snapshots, which replace everything;
//   onEvent(event, sequence)  for each event after them, in order;
//   onConnection(state, text) when the connection changes;
//   isOver()                  to check whether the run has ended.
export class Feed {
  constructor(session, hooks) {
    this.session = session;
    this.hooks = hooks;
    this.stopped = false;
    this.source = null;
    this.wake = () => {};
  }

  stop() {
    this.stopped = true;
    this.close();
    this.wake();
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  // run returns when the session has ended or is missing, or after stop.
  async run(expected) {
    let delay = firstDelay;
    let missing = 0;
    while (!this.stopped) {
      this.hooks.onConnection('connecting', 'connecting');
      const loaded = await this.load();
      if (this.stopped) return;
      if (loaded.outcome === 'ok') {
        missing = 0;
        this.hooks.onReset(loaded.root, loaded.children);
        if (this.hooks.isOver()) return this.hooks.onConnection('done', 'complete');
        const after = Number(loaded.root.streamSequence);
        const why = await this.follow(after);
        if (this.stopped) return;
        if (this.reached > after) delay = firstDelay; // events were received
        if (this.hooks.isOver() && why !== 'resync') return this.hooks.onConnection('done', 'complete');
      } else if (loaded.outcome === 'missing') {
        if (!expected && ++missing >= maxMissing) return this.hooks.onConnection('missing', 'no such session');
        this.hooks.onConnection('connecting', expected ? 'waiting for a worker' : 'looking for the session');
      } else {
        this.hooks.onConnection('broken', loaded.text);
      }
      await this.pause(delay * (0.7 + 0.6 * Math.random()));
      delay = Math.min(longestDelay, delay * 1.6);
    }
  }

  // load fetches the root's snapshot and then those of its sub-agents: in this order every record of a
  // sub-agent before the root's sequence is in its own snapshot, and every later one comes through the
  // stream.
  async load() {
    const root = await this.snapshot(this.session);
    if (root.outcome !== 'ok') return root;
    const children = new Map();
    const wanted = childrenOf(root.value);
    for (let i = 0; i < wanted.length; i++) {
      const id = wanted[i].id;
      if (children.has(id) || id === this.session) continue;
      const child = await this.snapshot(id);
      if (this.stopped) return { outcome: 'broken', text: 'stopped' };
      if (child.outcome === 'broken') return child;
      if (child.outcome === 'missing') continue; // requested, not started
      children.set(id, { ...wanted[i], snapshot: child.value });
      for (const grandchild of childrenOf(child.value)) wanted.push({ ...grandchild, parent: id });
    }
    return { outcome: 'ok', root: root.value, children };
  }

  async snapshot(id) {
    let response;
    try {
      response = await request(`/v1/sessions/${encodeURIComponent(id)}/snapshot?partial=1&root=${encodeURIComponent(this.session)}`, { cache: 'no-store' });
      if (response.status === 404) return { outcome: 'missing' };
      if (!response.ok) return { outcome: 'broken', text: `the server answered ${response.status}` };
      return { outcome: 'ok', value: parse(await response.text()) };
    } catch {
      return { outcome: 'broken', text: response ? 'the answer was cut off' : 'the server is away' };
    }
  }

  // follow listens after a sequence until the cursor is no longer valid ('resync') or the browser stops
  // reconnecting ('closed'). The browser reconnects with Last-Event-ID after interruptions.
  follow(after) {
    return new Promise((resolve) => {
      this.reached = 0;
      const done = (why) => {
        this.close();
        resolve(why);
      };
      this.wake = () => done('stopped');
      const source = new EventSource(`/v1/sessions/${encodeURIComponent(this.session)}/events?after=${after}&scope=tree`);
      this.source = source;
      source.onopen = () => this.hooks.onConnection('live', 'live');
      source.onmessage = (message) => {
        if (this.source !== source) return; // closed with events in flight
        let event;
        try {
          event = parse(message.data);
        } catch {
          return done('resync');
        }
        const sequence = Number.parseInt(message.lastEventId, 10); // "<sequence>-<anchor>"
        if (event.type === 'truncated') {
          this.hooks.onConnection('connecting', 'loading again');
          return done('resync');
        }
        this.reached = sequence;
        this.hooks.onEvent(event, sequence);
      };
      source.onerror = () => {
        if (this.source !== source) return;
        if (source.readyState === EventSource.CLOSED) return done('closed'); // 204, or an error status
        if (!this.hooks.isOver()) this.hooks.onConnection('broken', 'reconnecting');
      };
    });
  }

  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

// childrenOf are the sub-agents that a snapshot names.
function childrenOf(snapshot) {
  return (snapshot.children ?? []).map(({ session, type, callId, status }) => ({ id: session, type, callId, status }));
}
