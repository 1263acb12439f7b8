package chat

import (
	"encoding/json"

	"github.com/tailrace/tailrace/internal/conversation"
)

// emptyTurn returns the frames start and finish, with the rejected answers and an empty step between them. The step is for clients that post automatically
// when all calls in the last step of their message are answered. Without it:
//  1. a page answers a question that is complete, and posts,
//  2. the answer is rejected, and the response ends,
//  3. all calls in the last step are still answered: the page posts again, indefinitely.
//
// The client passes a new step to its application only with the next change, and its predicate checks the message of the application. The empty metadata is
// that change.
func (re *response) emptyTurn() []byte {
	start := struct {
		Type      string `json:"type"`
		MessageID string `json:"messageId,omitempty"`
	}{"start", re.plan.MessageID}
	dst := appendFrame(nil, start)
	dst = appendRejections(dst, re.plan.Rejected)
	return append(dst, "data: {\"type\":\"start-step\"}\n\ndata: {\"type\":\"finish-step\"}\n\ndata: {\"type\":\"finish\",\"finishReason\":\"stop\",\"messageMetadata\":{}}\n\ndata: [DONE]\n\n"...)
}

// appendFrame appends a chunk of strings.
func appendFrame(dst []byte, chunk any) []byte {
	data, err := json.Marshal(chunk)
	if err != nil {
		return dst // unreachable: strings can be encoded
	}
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// appendRejections appends the rejected answers as transient parts: the client would send a permanent part of the message again with every POST.
func appendRejections(dst []byte, rejected []conversation.Rejection) []byte {
	for _, r := range rejected {
		dst = appendFrame(dst, struct {
			Type      string                 `json:"type"`
			Data      conversation.Rejection `json:"data"`
			Transient bool                   `json:"transient"`
		}{"data-resume-rejected", r, true})
	}
	return dst
}
