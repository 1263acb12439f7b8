// Cursor is the id of the last event that the page was given.
//
// The AI SDK does not show ids of events to the page, and the edge needs to know
// where a page was when its connection broke. So this wraps fetch and reads the
// `id:` lines as they go by.
//
// The cursor of a snapshot counts if an answer is on its way, which it lies before,
// or once the page has said something. Else it lies behind a message that the page
// has from the snapshot and not from a stream: should that message go on before the
// page asks, the page needs all of it, because the SDK begins it anew.
export type Cursor = { id: string; counts: boolean };

export function fetchWithCursor(cursor: Cursor): typeof fetch {
  return async (input, init) => {
    if (init?.method === 'POST') cursor.counts = true;
    const response = await fetch(input, init);
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
          // An error overtakes what is queued in a chain of streams, and what the
          // cursor counts would be lost. A moment later the queues are empty.
          await new Promise((resolve) => setTimeout(resolve));
          throw error;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

// wholeRecords finds the end of the last event that has an id. The events of one
// record of the log bear the id on the last of them only: if a page took the first
// and lost the rest, it would be told the first once more.
function wholeRecords(text: string): { end: number; id: string } {
  let whole = { end: 0, id: '' };
  for (let from = 0, to; (to = text.indexOf('\n\n', from)) >= 0; from = to + 2) {
    const id = /^id: (.+)$/m.exec(text.slice(from, to))?.[1];
    if (id !== undefined) whole = { end: to + 2, id };
  }
  return whole;
}
