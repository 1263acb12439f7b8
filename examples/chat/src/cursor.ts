import { forget } from './token.ts';

// Cursor is the id of the last event that the page received: "<sequence>-<anchor>", or a sequence alone.
//
// The AI SDK does not expose event ids, and the edge needs the position of the page when its connection
// broke. So this wraps fetch and reads the `id:` lines.
//
// The cursor of a snapshot is used while an answer is in progress, because it precedes that answer, or after
// the page has sent a message. Otherwise it follows a message that the page has from the snapshot only: if
// that message continues before the next request, the page needs all of it, because the SDK restarts the
// message.
export type Cursor = { id: string; counts: boolean };

export function fetchWithCursor(cursor: Cursor): typeof fetch {
  return async (input, init) => {
    if (init?.method === 'POST') cursor.counts = true;
    const response = await fetch(input, init);
    if (response.status === 401) forget();
    if (response.status !== 200 || !response.body) return response;
    return new Response(watch(response.body, cursor), response);
  };
}

function watch(body: ReadableStream<Uint8Array<ArrayBuffer>>, cursor: Cursor): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let held = '';
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (done) {
              controller.enqueue(encoder.encode(held));
              controller.close();
              return;
            }
            held += decoder.decode(value, { stream: true });
            const whole = wholeRecords(held);
            if (whole.end > 0) {
              cursor.id = whole.id;
              cursor.counts = true;
              controller.enqueue(encoder.encode(held.slice(0, whole.end)));
              held = held.slice(whole.end);
              return;
            }
          }
        } catch (error) {
          // An error discards the chunks that are queued in a chain of streams, and events that the cursor
          // counts would be lost. The queues are empty after a short delay.
          await new Promise((resolve) => setTimeout(resolve));
          throw error;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

// wholeRecords returns the end of the last event that has an id. Only the last event of a log record has its
// id: if a page used the first events and lost the rest, it would get the first ones again.
function wholeRecords(text: string): { end: number; id: string } {
  let whole = { end: 0, id: '' };
  for (let from = 0, to; (to = text.indexOf('\n\n', from)) >= 0; from = to + 2) {
    const id = /^id: (.+)$/m.exec(text.slice(from, to))?.[1];
    if (id !== undefined) whole = { end: to + 2, id };
  }
  return whole;
}
