import { DefaultChatTransport, type UIMessage } from 'ai';
import { type Cursor, fetchWithCursor } from './cursor';

// newTransport returns the default transport: it posts to /api/chat and reconnects to /api/chat/{id}/stream.
// It sends the cursor at the time of the request, not the one at page load.
export function newTransport(cursor: Cursor) {
  return new DefaultChatTransport<UIMessage>({
    fetch: fetchWithCursor(cursor),
    prepareReconnectToStreamRequest: () => ({
      headers: cursor.counts ? { 'X-Resume-From-Sequence': cursor.id } : undefined,
    }),
  });
}

// requestStop requests a stop of the run, which ends the stream. Closing the connection would not stop the
// run.
export async function requestStop(id: string): Promise<void> {
  const response = await fetch(`/api/chat/${id}/stop`, { method: 'POST' });
  if (!response.ok) throw new Error(await response.text());
}
