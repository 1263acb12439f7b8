// From a snapshot (GET /v1/sessions/{id}/snapshot?partial=1) to the model.

import { decision, problem } from './model.js';

// load applies a snapshot to the model, like all records up to its sequence.
export function load(model, id, snapshot) {
  const agent = model.agent(id, snapshot.session?.agentType ?? '');
  agent.position = Number(snapshot.streamSequence);
  agent.state = snapshot.state ?? null;
  agent.status = snapshot.status;
  const said = (snapshot.messages ?? []).flatMap(({ role, parts }) => (parts ?? []).map((part) => ({ role, part })));
  // An open part stays last, because the stream continues it, unless the last record is an error: the stream continues with another part then. A snapshot does
  // not contain the positions of earlier errors between parts.
  const growing = said.at(-1)?.part.state === 'streaming' ? said.splice(-1) : [];
  for (const { role, part } of said) addSaid(model, agent, role, part);
  const errors = snapshot.errors ?? [];
  const last = errors.at(-1)?.seq === agent.position ? errors.at(-1) : undefined;
  for (const error of errors) if (error !== last) model.event(agent, problem(error), 'bad');
  if (snapshot.run?.output !== undefined) model.add(agent, { kind: 'output', data: snapshot.run.output });
  for (const { role, part } of growing) addSaid(model, agent, role, part);
  if (last) model.event(agent, problem(last), 'bad');
  const end = agent.parts.at(-1);
  if (end && snapshot.status !== 'active' && snapshot.status !== 'paused') end.closed = true;
  model.changed.add(agent);
  if (id === model.root) {
    model.sequence = Math.max(model.sequence, agent.position);
    if (snapshot.status === 'failed') model.event(agent, snapshot.error?.message ?? 'the run failed', 'bad');
    model.setStatus(snapshot.status);
  }
}

function addSaid(model, agent, role, part) {
  if (role !== 'user') addPart(model, agent, part);
  else if (part.type === 'text') model.add(agent, { kind: 'user', text: part.text, files: [] });
}

function addPart(model, agent, part) {
  switch (part.type) {
    case 'text':
      model.add(agent, { kind: 'text', text: part.text, closed: part.state === 'done' });
      return;
    case 'reasoning':
      model.add(agent, { kind: 'thinking', text: part.text, closed: part.state !== 'streaming' });
      return;
    case 'file':
      model.add(agent, { kind: 'file', url: part.url, mediaType: part.mediaType, filename: part.filename });
      return;
    case 'source-url':
      model.source({ kind: 'url', id: part.sourceId, url: part.url, title: part.title ?? part.url });
      return;
    case 'source-document':
      model.source({ kind: 'document', id: part.sourceId, title: part.title, filename: part.filename, mediaType: part.mediaType });
      return;
    case 'dynamic-tool':
      addTool(model, agent, part);
      return;
  }
  if (part.type.startsWith('tool-')) addTool(model, agent, { ...part, toolName: part.type.slice('tool-'.length) });
  else if (part.type.startsWith('data-')) model.custom(agent, part.type.slice('data-'.length), part.data);
}

const phases = {
  'input-streaming': 'streaming', 'input-available': 'running', 'approval-requested': 'asking', 'approval-responded': 'running',
  'output-available': 'done', 'output-error': 'failed', 'output-denied': 'failed',
};

function addTool(model, agent, part) {
  const call = model.call(agent, part.toolCallId, part.toolName);
  call.phase = phases[part.state] ?? 'running';
  if (call.phase === 'streaming') call.args = part.rawInput ?? '';
  else call.input = part.input;
  if (part.approval?.approved !== undefined) call.notes.push(decision(part.approval));
  if (part.state === 'output-available') call.result = part.output;
  if (call.phase === 'failed') call.error = part.errorText ?? 'refused';
}
