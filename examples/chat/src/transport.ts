import { DefaultChatTransport, type UIMessage } from 'ai';
import { type Cursor, fetchWithCursor } from './cursor';
import { authorization } from './token';

// newTransport returns the default transport: it posts to /api/chat and reconnects to /api/chat/{id}/stream.
// It sends the cursor at the time of the request, not the one at page load, and only the messages that the
// edge reads: with the whole list, a long chat would exceed the limit of a request, and so would every
// message after one that was rejected as too large.
export function newTransport(cursor: Cursor) {
  return new DefaultChatTransport<UIMessage>({
    fetch: fetchWithCursor(cursor),
    headers: authorization, // called for each request
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => ({
      body: { ...body, id, trigger, messageId, messages: lastTurn(messages) },
    }),
    prepareReconnectToStreamRequest: ({ id, headers }) => ({
      api: `/api/chat/${encodeURIComponent(id)}/stream`, // the default path has the id as it is
      headers: { ...(headers as Record<string, string>), ...(cursor.counts && { 'X-Resume-From-Sequence': cursor.id }) },
    }),
  });
}

// lastTurn returns the last message of the assistant, which may have answers to calls, and what follows it.
function lastTurn(messages: UIMessage[]): UIMessage[] {
  return messages.slice(Math.max(0, messages.findLastIndex((message) => message.role === 'assistant')));
}

// requestStop requests a stop of the run, which ends the stream. Closing the connection would not stop the
// run.
export async function requestStop(id: string): Promise<void> {
  const response = await fetch(`/api/chat/${encodeURIComponent(id)}/stop`, { method: 'POST', headers: await authorization() });
  if (!response.ok) throw new Error(await response.text());
}
