// What the judge needs of the packages. The test copies this file beside the
// node_modules of each major version, so that the names mean that version's.
export {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  validateUIMessages,
} from 'ai';
export { Chat } from '@ai-sdk/react';
