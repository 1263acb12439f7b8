import { getToolName, isToolUIPart, type UIMessage } from 'ai';
import { useEffect, useRef } from 'react';
import { tools } from './tools';

type Output = { tool: string; toolCallId: string } & (
  | { output: unknown }
  | { state: 'output-error'; errorText: string }
);

// useBrowserTools runs the pending calls of the last message. onToolCall is not sufficient: it is not called
// for calls that were pending when the page was loaded.
export function useBrowserTools(last: UIMessage | undefined, idle: boolean, addToolOutput: (o: Output) => unknown) {
  const begun = useRef(new Set<string>());
  useEffect(() => {
    if (!idle || last?.role !== 'assistant') return;
    for (const part of last.parts) {
      if (!isToolUIPart(part) || part.state !== 'input-available' || part.providerExecuted) continue;
      const tool = tools[getToolName(part)];
      if (!tool || begun.current.has(part.toolCallId)) continue;
      begun.current.add(part.toolCallId);
      const call = { tool: getToolName(part), toolCallId: part.toolCallId };
      Promise.resolve(part.input).then(tool).then(
        (output) => addToolOutput({ ...call, output }),
        (error) => addToolOutput({ ...call, state: 'output-error', errorText: String(error) }),
      );
    }
  }, [last, idle, addToolOutput]);
}
