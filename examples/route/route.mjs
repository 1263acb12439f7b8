// A chat route as applications with the AI SDK have it (in Next.js: app/api/chat/route.ts). It knows nothing of Tailrace. With a provider's model instead of
// the scripted one this is the whole agent.
import { convertToModelMessages, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { scriptedModel } from './model.mjs';

const input = (properties) => jsonSchema({ type: 'object', properties, additionalProperties: false });

const tools = {
  // Runs here.
  turn_page: tool({ description: 'Turns the page.', inputSchema: input({ to: { type: 'integer' } }), execute: async ({ to }) => ({ page: to }) }),
  // Runs here after a user has approved it.
  delete_files: tool({
    description: 'Deletes files.', inputSchema: input({ files: { type: 'integer' } }), needsApproval: true,
    execute: async ({ files }) => ({ deleted: files }),
  }),
  // Has no execute: it runs in the browser.
  page_time_zone: tool({ description: 'The time zone of the browser.', inputSchema: input({}) }),
};

export async function POST(request) {
  const { id, messages } = await request.json();
  const result = streamText({
    model: scriptedModel(id),
    messages: await convertToModelMessages(messages, { tools }),
    tools,
    stopWhen: stepCountIs(5),
    abortSignal: request.signal,
    onError: () => {}, // reported to the client below
  });
  return result.toUIMessageStreamResponse({ onError: (error) => error.message });
}
