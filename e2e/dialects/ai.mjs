// Runs ai, the client of the AI SDK, for the tests of this directory. One line of JSON on standard input is a message and responses, the answer is the message after
// them, and the errors:
//
//	{"message":{…},"responses":["data: …"]}
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.argv[2] + '/'));
const { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } = await import(pathToFileURL(require.resolve('ai')));

async function answer({ message, responses }) {
  const errors = [];
  for (const body of responses) {
    const stream = parseJsonEventStream({ stream: new Response(body).body, schema: uiMessageChunkSchema }).pipeThrough(
      new TransformStream({
        transform(part, controller) {
          if (part.success) controller.enqueue(part.value);
          else errors.push(String(part.error));
        },
      }),
    );
    for await (const m of readUIMessageStream({ message, stream, onError: (e) => errors.push(String(e)), terminateOnError: false })) message = m;
  }
  return { message, errors };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line)).catch((e) => ({ errors: [e.stack] }))) + '\n');
}
