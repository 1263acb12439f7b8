import { DefaultChatTransport, type UIMessage } from 'ai';
import { type Cursor, fetchWithCursor } from './cursor';

// newTransport is the stock one: it posts to /api/chat and comes back to
// /api/chat/{id}/stream. The cursor goes with it as it is then, not as it was when
// the page was loaded.
export function newTransport(cursor: Cursor) {
  return new DefaultChatTransport<UIMessage>({
    fetch: fetchWithCursor(cursor),
    prepareReconnectToStreamRequest: () => ({
      headers: cursor.counts ? { 'X-Resume-From-Sequence': cursor.id } : undefined,
    }),
  });
}

// requestStop asks for the answer to end. The stream then ends by itself: to
// close the connection would stop nothing.
export async function requestStop(id: string): Promise<void> {
  const response = await fetch(`/api/chat/${id}/stop`, { method: 'POST' });
  if (!response.ok) throw new Error(await response.text());
}
