import {
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';

type Chat = { messages: UIMessage[] };

// isAnswered reports whether all pending calls of the last step have answers, by the rules of the AI SDK for
// browser tools and approvals.
export function isAnswered(chat: Chat): boolean {
  return lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
}

// sendsAnswers decides when to post answers: after the last answer of a step, and once. Without "once" the
// same answers would be posted repeatedly if the run was stopped before it resumed, because the call remains
// the last part of the message.
export function sendsAnswers(): (chat: Chat) => boolean {
  let sent = '';
  return ({ messages }) => {
    if (!isAnswered({ messages })) return false;
    const answers = messages.at(-1)!.parts.filter(isToolUIPart).map((call) => call.toolCallId).join();
    if (answers === sent) return false;
    sent = answers;
    return true;
  };
}
