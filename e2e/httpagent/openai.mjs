// A route with an agent of @openai/agents, whose model has fixed answers: node openai.mjs
import { createServer } from 'node:http';
import { Agent, Runner, tool } from '@openai/agents';
import { ScriptedModel, assistantMessage, functionCall } from '@openai/agents/testing';
import { z } from 'zod';

const track = tool({
  name: 'track', description: 'Where a parcel is.', parameters: z.object({ id: z.number() }), execute: ({ id }) => ({ id, city: 'Oslo' }),
});
const remove = tool({
  name: 'remove', description: 'Removes files.', parameters: z.object({ files: z.number() }), needsApproval: true, execute: ({ files }) => `removed ${files}`,
});
const script = (steps) => new ScriptedModel(steps);
const billing = new Agent({ name: 'Billing', instructions: 'SECRET', model: script([]) });
const agentFor = (text) => {
  if (text.includes('bill')) {
    const to = billing.clone({ model: script([[assistantMessage('It is paid.')]]) });
    return new Agent({ name: 'Clerk', instructions: 'SECRET', handoffs: [to], model: script([[functionCall('transfer_to_Billing', {}, { callId: 'handoff-1' })]]) });
  }
  const [call, answer] = text.includes('remove')
    ? [functionCall('remove', { files: 3 }, { callId: 'remove-1' }), 'Well.']
    : [functionCall('track', { id: 7 }, { callId: 'track-1' }), 'It is in Oslo.'];
  return new Agent({ name: 'Clerk', instructions: 'SECRET', tools: [track, remove], model: script([[assistantMessage('Let me look. '), call], [assistantMessage(answer)]]) });
};

const runner = new Runner({ tracingDisabled: true });
const waiting = new Map(); // runs that wait for an approval, by session

const server = createServer(async (req, res) => {
  try {
    const { session, messages } = JSON.parse(Buffer.concat(await Array.fromAsync(req)).toString());
    const decisions = new Map(messages.at(-1).parts.filter((part) => part.approval?.approved !== undefined).map((part) => [part.toolCallId, part.approval.approved]));
    let [agent, input] = waiting.get(session) ?? [];
    if (decisions.size > 0 && agent) {
      for (const item of input.getInterruptions()) decisions.get(item.rawItem.callId) ? input.approve(item) : input.reject(item);
    } else {
      input = messages.at(-1).parts.map((part) => part.text ?? '').join('');
      agent = agentFor(input);
    }
    const result = await runner.run(agent, input, { stream: true });
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for await (const event of result) res.write(`data: ${JSON.stringify(event)}\n\n`);
    waiting.set(session, [agent, result.state]);
    res.write('data: [DONE]\n\n'); // the connection stays open until the client closes it
  } catch (error) {
    console.error(error);
    res.destroy();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
