package chat

import (
	"encoding/json"

	"github.com/tailrace/tailrace/internal/conversation"
)

// emptyTurn is start and finish, with what is rejected between them. The step in it is for clients that post by themselves when everything in the last step of
// their message is answered. Without it:
//  1. a page answers a question that is complete, and posts,
//  2. the answer is rejected, and the response ends,
//  3. everything in the last step is answered: the page posts again, and so on indefinitely.
//
// The client shows its application a step that begins only with the next change, and the predicate checks what is shown: the empty metadata is that change.
func (st *stream) emptyTurn() []byte {
	start := struct {
		Type      string `json:"type"`
		MessageID string `json:"messageId,omitempty"`
	}{"start", st.plan.MessageID}
	dst := appendFrame(nil, start)
	dst = appendRejections(dst, st.plan.Rejected)
	if !st.service.cfg.Dialect.NoSteps {
		dst = append(dst, "data: {\"type\":\"start-step\"}\n\ndata: {\"type\":\"finish-step\"}\n\n"...)
	}
	return append(dst, "data: {\"type\":\"finish\",\"finishReason\":\"stop\",\"messageMetadata\":{}}\n\ndata: [DONE]\n\n"...)
}

// appendFrame appends a chunk of strings.
func appendFrame(dst []byte, chunk any) []byte {
	data, err := json.Marshal(chunk)
	if err != nil {
		return dst // strings can be written
	}
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// appendRejections tells what was not taken, in passing: a part that stayed in the
// message would come back with every POST.
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
