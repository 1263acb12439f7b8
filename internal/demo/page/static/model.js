// The state of a session: agents with their parts in the order of the log. No DOM, no network. `changed` has
// what changed since the last draw.

import { patched } from './json.js';

export class Model {
  constructor(root) {
    this.root = root;
    this.reset();
  }

  reset() {
    this.agents = new Map(); // session id -> agent
    this.status = 'waiting'; // then active, paused, ended or failed
    this.sequence = 0; // the last record that is shown
    this.log = []; // the latest records: {sequence, type, agentType}
    this.sources = []; // {kind, …} of all agents
    this.changed = new Set(); // agents and parts to be drawn again
    this.agent(this.root);
  }

  // agent returns an agent and creates it if necessary. Its position is its last record: records up to it are
  // already included.
  agent(id, type = '') {
    let agent = this.agents.get(id);
    if (!agent) {
      agent = { kind: 'agent', id, type, position: 0, parts: [], calls: new Map(), state: null, stateFaults: 0, status: 'active', parent: null };
      this.agents.set(id, agent);
      this.changed.add(agent);
    }
    if (type && !agent.type) {
      agent.type = type;
      this.changed.add(agent);
    }
    return agent;
  }

  // place moves a sub-agent below the call that started it, or to the end of its parent, once.
  place(parent, child, callId) {
    if (child.parent || child === parent) return;
    child.parent = parent;
    child.callId = callId;
    const call = parent.calls.get(callId);
    if (call) {
      call.child = child;
      this.changed.add(call);
    } else {
      this.add(parent, { kind: 'child', child });
    }
    this.changed.add(child);
  }

  add(agent, part) {
    part.agent = agent;
    agent.parts.push(part);
    this.changed.add(part);
    return part;
  }

  // saw records the position of an agent. It returns false for a record that is already included.
  saw(agentId, sequence) {
    const agent = this.agent(agentId);
    if (sequence <= agent.position) return false;
    agent.position = sequence;
    this.sequence = Math.max(this.sequence, sequence);
    return true;
  }

  note(sequence, type, agentType) {
    this.log.push({ sequence, type, agentType });
    if (this.log.length > 200) this.log.splice(0, 150);
  }

  setStatus(status) {
    this.status = status;
    const root = this.agent(this.root);
    root.status = status;
    this.changed.add(root);
  }

  // apply applies one chunk of the log.
  apply(chunk, sequence) {
    if (!this.saw(chunk.agentId, sequence)) return;
    this.note(sequence, chunk.type, chunk.agentType);
    const agent = this.agent(chunk.agentId, chunk.agentType);
    const handler = handlers[chunk.type];
    if (handler) handler(this, agent, chunk);
    else this.event(agent, `unknown chunk ${chunk.type}`);
  }

  event(agent, text, tone = '') {
    this.add(agent, { kind: 'event', text, tone });
  }

  // stream appends to the last part when it is of this kind and still open.
  stream(agent, kind, delta) {
    let part = agent.parts.at(-1);
    if (part?.kind !== kind || part.closed) part = this.add(agent, { kind, text: '', closed: false });
    part.text += delta;
    this.changed.add(part);
    return part;
  }

  // call returns the card of a tool call and creates it if necessary.
  call(agent, id, name) {
    let part = agent.calls.get(id);
    if (!part) {
      part = this.add(agent, { kind: 'tool', id, name: name ?? '', phase: 'running', args: '', notes: [], child: null });
      agent.calls.set(id, part);
    }
    if (name) part.name = name;
    this.changed.add(part);
    return part;
  }

  // custom events with progress update the existing bar.
  custom(agent, name, data) {
    const last = agent.parts.at(-1);
    if (name === 'progress' && last?.kind === 'custom' && last.name === name) {
      last.data = data;
      this.changed.add(last);
    } else {
      this.add(agent, { kind: 'custom', name, data });
    }
  }

  source(source) {
    if (source.id && this.sources.some((s) => s.id === source.id && s.kind === source.kind && s.url === source.url)) return;
    this.sources.push(source);
  }
}

// decision describes the decision about a call.
export function decision({ approved, isAutomatic, reason }) {
  return `${approved ? 'approved' : 'refused'}${isAutomatic ? ' by a rule' : ''}${reason ? `: ${reason}` : ''}`;
}

// problem describes an error that an agent reported.
export function problem({ message, code, recoverable }) {
  return `${message}${code ? ` (${code})` : ''}${recoverable ? ', continues' : ''}`;
}

const handlers = {
  run_started(m, agent, c) {
    if (agent.id === m.root) m.setStatus('active');
    agent.status = 'active';
    if (c.parent?.sessionId) m.place(m.agent(c.parent.sessionId), agent, c.parent.callId);
    if (c.mode === 'takeover') {
      m.event(agent, `another worker continues this run (epoch ${c.epoch})`, 'notice');
      return;
    }
    for (const input of c.input ?? []) m.add(agent, { kind: 'user', text: input.content, files: input.files ?? [] });
  },
  text_delta(m, agent, c) { m.stream(agent, 'text', c.delta); },
  thinking(m, agent, c) {
    const part = m.stream(agent, 'thinking', c.content);
    part.closed = c.isComplete;
  },
  tool_arg_stream_start(m, agent, c) { m.call(agent, c.toolCallId, c.toolName).phase = 'streaming'; },
  tool_arg_stream_delta(m, agent, c) { m.call(agent, c.toolCallId).args += c.delta; },
  tool_arg_stream_end(m, agent, c) { m.call(agent, c.toolCallId).phase = 'running'; },
  tool_start(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = 'running';
    part.input = c.arguments;
  },
  tool_end(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = c.error === undefined || c.error === null ? 'done' : 'failed';
    part.error = c.error ?? undefined;
    part.errorCode = c.errorCode;
    part.result = c.result;
  },
  tool_approval_request(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = 'asking';
    part.input ??= c.input;
    part.notes.push(c.isAutomatic ? 'a rule is asked' : 'waits for approval');
  },
  tool_approval_response(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = 'running';
    part.notes.push(decision(c));
  },
  tool_input_error(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = 'failed';
    part.notes.push(`input: ${c.error}`);
  },
  tool_output_error(m, agent, c) {
    const part = m.call(agent, c.toolCallId, c.toolName);
    part.phase = 'failed';
    part.notes.push(`output: ${c.error}`);
  },
  subagent_start(m, agent, c) { m.place(agent, m.agent(c.subSessionId, c.subAgentType), c.callId); },
  subagent_end(m, agent, c) {
    const child = m.agent(c.subSessionId, c.subAgentType);
    m.place(agent, child, c.callId);
    child.status = c.result?.error ? 'failed' : 'ended';
    m.changed.add(child);
  },
  custom(m, agent, c) { m.custom(agent, c.eventName, c.data); },
  state_patch(m, agent, c) {
    try {
      agent.state = patched(agent.state, c.patches);
    } catch (err) {
      agent.stateFaults++;
      m.event(agent, `a state patch was refused: ${err.message}`, 'bad');
    }
    m.changed.add(agent);
  },
  error(m, agent, c) { m.event(agent, problem({ ...c, message: c.error }), 'bad'); },
  output(m, agent, c) { m.add(agent, { kind: 'output', data: c.output }); },
  source_url(m, agent, c) { m.source({ kind: 'url', id: c.sourceId, url: c.url, title: c.title ?? c.url }); },
  source_document(m, agent, c) { m.source({ kind: 'document', id: c.sourceId, title: c.title, filename: c.filename, mediaType: c.mediaType }); },
  file(m, agent, c) { m.add(agent, { kind: 'file', url: c.url, mediaType: c.mediaType, filename: c.filename }); },
  step_start() {},
  step_end(m, agent) {
    const part = agent.parts.at(-1);
    if (part?.kind === 'text') {
      part.closed = true;
      m.changed.add(part);
    }
  },
  checkpoint_created() {},
  step_committed(m, agent, c) { m.event(agent, `step ${c.step} committed`, 'quiet'); },
  step_discarded(m, agent, c) { m.event(agent, `step discarded: ${c.reason}`); },
  run_paused(m, agent, c) { m.event(agent, `paused: ${c.reason}`); },
  run_resumed(m, agent, c) { m.event(agent, `resumed (${c.mode}) after step ${c.fromStepCount}`); },
  run_interrupted(m, agent, c) { m.event(agent, `interrupted${c.reason ? `: ${c.reason}` : ''}`); },
  executor_superseded(m, agent, c) { m.event(agent, `executor superseded${c.reason ? `: ${c.reason}` : ''}`); },
  stream_resync(m, agent, c) { m.event(agent, `resynchronised (${c.reason})`); },
  suspension_marker() {},
};
