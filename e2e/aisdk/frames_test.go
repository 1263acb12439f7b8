//go:build e2e

package aisdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// frame is one event of a body.
type frame struct {
	id   chunk.Seq // 0 for none
	data string
}

// frames parses a body as documented, more strictly than a client: at most one
// id, one line of data, a blank line, nothing else.
func frames(body []byte) ([]frame, error) {
	var out []frame
	for len(body) > 0 {
		event, rest, ended := bytes.Cut(body, []byte("\n\n"))
		if !ended {
			return nil, fmt.Errorf("incomplete event: %q", body)
		}
		body = rest
		var f frame
		for line := range strings.SplitSeq(string(event), "\n") {
			if id, ok := strings.CutPrefix(line, "id: "); ok && f.id == 0 && f.data == "" {
				c, ok := chunk.ParseCursor(id)
				if !ok || c.Anchor == 0 {
					return nil, fmt.Errorf("id %q: want a sequence with an anchor", id)
				}
				f.id = c.Seq
			} else if data, ok := strings.CutPrefix(line, "data: "); ok && f.data == "" {
				f.data = data
			} else {
				return nil, fmt.Errorf("unexpected line %q in %q", line, event)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// fields lists the chunks that every client of the majors 6 and 7 knows, with
// the only fields that every one of them accepts.
var fields = map[string]string{
	"start":                 "messageId messageMetadata",
	"finish":                "finishReason messageMetadata",
	"abort":                 "",
	"error":                 "errorText",
	"message-metadata":      "messageMetadata",
	"start-step":            "",
	"finish-step":           "",
	"text-start":            "id providerMetadata",
	"text-delta":            "id delta providerMetadata",
	"text-end":              "id providerMetadata",
	"reasoning-start":       "id providerMetadata",
	"reasoning-delta":       "id delta providerMetadata",
	"reasoning-end":         "id providerMetadata",
	"tool-input-start":      "toolCallId toolName dynamic providerExecuted title",
	"tool-input-delta":      "toolCallId inputTextDelta",
	"tool-input-available":  "toolCallId toolName input dynamic providerExecuted providerMetadata title",
	"tool-input-error":      "toolCallId toolName input errorText dynamic providerExecuted providerMetadata title",
	"tool-output-available": "toolCallId output dynamic providerExecuted preliminary",
	"tool-output-error":     "toolCallId errorText dynamic providerExecuted",
	"tool-output-denied":    "toolCallId",
	"tool-approval-request": "approvalId toolCallId",
	"source-url":            "sourceId url title providerMetadata",
	"source-document":       "sourceId mediaType title filename providerMetadata",
	"file":                  "url mediaType providerMetadata",
}

// fields7 lists those of 7.x only.
var fields7 = map[string]string{
	"tool-approval-response": "approvalId approved reason providerExecuted providerMetadata",
	"reset-step":             "",
}

// checkFrames checks the frames of one record: clients of a major version know
// each chunk and accept all its fields; only the last chunk has an id, which is
// the record's, except for chunks that only the edge writes.
func checkFrames(body []byte, seq chunk.Seq, major int) error {
	all, err := frames(body)
	if err != nil {
		return err
	}
	var own []frame // chunks of the record itself
	for _, f := range all {
		if f.data == "[DONE]" {
			if f.id != 0 {
				err = errors.Join(err, errors.New("[DONE] has an id"))
			}
			continue
		}
		err = errors.Join(err, checkFields(f.data, major))
		own = append(own, f)
	}
	for i, f := range own {
		if f.id != 0 && (f.id != seq || i < len(own)-1 && !madeByEdge(own[i+1:])) {
			err = errors.Join(err, fmt.Errorf("record %d has the id %d on chunk %d of %d:\n%s", seq, f.id, i+1, len(own), body))
		}
	}
	return err
}

// madeByEdge reports whether the chunks are those that end a response.
func madeByEdge(rest []frame) bool {
	return !slices.ContainsFunc(rest, func(f frame) bool {
		return !strings.HasPrefix(f.data, `{"type":"finish`)
	})
}

func checkFields(data string, major int) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &members); err != nil {
		return fmt.Errorf("%w: %s", err, data)
	}
	var kind string
	if err := json.Unmarshal(members["type"], &kind); err != nil {
		return fmt.Errorf("missing type: %s", data)
	}
	allowed, known := fields[kind]
	if more, ok := fields7[kind]; ok && major == 7 {
		allowed, known = more, true
	}
	if strings.HasPrefix(kind, "data-") {
		allowed, known = "data id transient", true
	}
	if !known {
		return fmt.Errorf("unknown type: %s", data)
	}
	for name := range members {
		if name != "type" && !slices.Contains(strings.Fields(allowed), name) {
			return fmt.Errorf("unknown field %q: %s", name, data)
		}
	}
	return nil
}
