// An agent that speaks AG-UI with @ag-ui/core and @ag-ui/encoder: node agui.mjs
import { createServer } from 'node:http';
import { EventType } from '@ag-ui/core';
import { RunAgentInputSchema } from '@ag-ui/core/schemas';
import { EventEncoder } from '@ag-ui/encoder';

let messages = 0;
const say = (text) => {
  const messageId = `m${++messages}`;
  return [
    { type: EventType.TEXT_MESSAGE_START, messageId, role: 'assistant' }, { type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta: text },
    { type: EventType.TEXT_MESSAGE_END, messageId },
  ];
};
const call = (toolCallId, toolCallName, input) => [
  { type: EventType.TOOL_CALL_START, toolCallId, toolCallName }, { type: EventType.TOOL_CALL_ARGS, toolCallId, delta: JSON.stringify(input) },
  { type: EventType.TOOL_CALL_END, toolCallId },
];
const result = (toolCallId, content) => ({ type: EventType.TOOL_CALL_RESULT, messageId: `r-${toolCallId}`, toolCallId, content: JSON.stringify(content), role: 'tool' });
const interrupt = (...interrupts) => ({ outcome: { type: 'interrupt', interrupts } });

// reply returns the events of an answer, and the outcome of the run.
function reply({ messages, state, resume, tools, context, forwardedProps }) {
  const last = messages.at(-1);
  if (resume?.length) {
    const { interruptId, status, payload } = resume[0];
    if (interruptId === 'colour') return [say(status === 'resolved' ? `${payload} it is.` : 'No colour.')];
    if (!payload.approved) return [say('The files stay.')];
    return [[result('delete-1', { deleted: 3 }), ...say('The files are gone.')]];
  }
  if (last.role === 'tool') return [say(`You are in ${last.content}.`)];
  if (last.content.includes('what')) {
    return [[
      { type: EventType.STATE_DELTA, delta: [{ op: 'replace', path: '/colour', value: 'blue' }] },
      ...say(`${tools[0].name}(${Object.keys(tools[0].parameters.properties)}), ${context[0].description}: ${context[0].value}, ${forwardedProps.plan}, ${state.colour}.`),
    ]];
  }
  if (last.content.includes('where')) return [call('where-1', 'location', {})];
  if (last.content.includes('delete')) return [call('delete-1', 'delete', { files: 3 }), interrupt({ id: 'i-1', reason: 'approval', toolCallId: 'delete-1' })];
  if (last.content.includes('colour')) return [say('Let me ask. '), interrupt({ id: 'colour', reason: 'question', message: 'Which colour?' })];
  const n = (state?.n ?? 0) + 1;
  return [[...call('count-1', 'count', {}), result('count-1', n), { type: EventType.STATE_SNAPSHOT, snapshot: { n } }, ...say(`Number ${n}.`)]];
}

const encoder = new EventEncoder();
const server = createServer(async (req, res) => {
  try {
    const input = RunAgentInputSchema.parse(JSON.parse(Buffer.concat(await Array.fromAsync(req)).toString()));
    const { threadId, runId } = input;
    const [events, end = {}] = reply(input);
    res.writeHead(200, { 'content-type': encoder.getContentType() });
    for (const event of [{ type: EventType.RUN_STARTED, threadId, runId }, ...events, { type: EventType.RUN_FINISHED, threadId, runId, ...end }]) {
      res.write(encoder.encode(event));
    }
    res.end();
  } catch (error) {
    console.error(error);
    res.destroy();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/agent`));
