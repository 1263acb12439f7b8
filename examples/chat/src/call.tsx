import { getToolName, type DynamicToolUIPart, type ToolUIPart } from 'ai';

export type Decide = (decision: { id: string; approved: boolean }) => unknown;

// Call is one tool call, with two buttons if it needs an approval and its run still waits for the decision.
export function Call({ call, decide }: { call: ToolUIPart | DynamicToolUIPart; decide?: Decide }) {
  const name = getToolName(call);
  const asks = call.state === 'approval-requested';
  return (
    <section className="call" data-call={call.toolCallId} data-state={call.state} aria-label={`Tool ${name}`}>
      <p><b>{name}</b> {asks && !decide ? 'was not decided' : words[call.state]}</p>
      {call.input !== undefined && <pre>{JSON.stringify(call.input)}</pre>}
      {asks && decide && (
        <p className="decision">
          May the agent do this?{' '}
          <button type="button" onClick={() => decide({ id: call.approval.id, approved: true })}>Allow</button>{' '}
          <button type="button" onClick={() => decide({ id: call.approval.id, approved: false })}>Deny</button>
        </p>
      )}
      {call.state === 'output-available' && <pre>{JSON.stringify(call.output)}</pre>}
      {call.state === 'output-error' && <p className="failure">{call.errorText}</p>}
    </section>
  );
}

const words: Record<(ToolUIPart | DynamicToolUIPart)['state'], string> = {
  'input-streaming': 'is being called',
  'input-available': 'is running',
  'approval-requested': 'waits for you',
  'approval-responded': 'was decided',
  'output-available': 'is done',
  'output-error': 'has failed',
  'output-denied': 'was not allowed',
};
