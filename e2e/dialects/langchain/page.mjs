// A page with useStream of @langchain/react, for the thread in the fragment of its address, of the edge in its query, or of its own site. window.stream is the hook, window.shown what a page would show.
import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import { useStream } from '@langchain/react';

const tools = [{ tool: { name: 'browser' }, execute: async (args) => ({ zone: 'Europe/Lisbon', ...args }) }];

function Page() {
  const stream = useStream({ assistantId: 'demo', apiUrl: (location.search.slice(1) || location.origin) + '/api/langgraph', threadId: location.hash.slice(1), tools, reconnectDelayMs: () => 20, maxReconnectAttempts: Infinity });
  window.stream = stream;
  window.shown = {
    loading: stream.isLoading,
    thread: stream.isThreadLoading,
    error: stream.error === undefined ? '' : String(stream.error),
    messages: stream.messages.map((m) => ({ type: m.getType(), id: m.id, text: m.text })),
    calls: stream.toolCalls.map((c) => `${c.name} ${c.status}`),
    interrupts: stream.interrupts.map((i) => i.id),
    graphs: [...stream.subgraphs.values()].map((g) => `${g.nodeName} ${g.status}`),
  };
  return createElement('pre', null, JSON.stringify(window.shown, null, 1));
}

createRoot(document.body.appendChild(document.createElement('div'))).render(createElement(Page));
