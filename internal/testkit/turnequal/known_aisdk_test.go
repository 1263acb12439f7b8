//go:build !race

package turnequal_test

import (
	"bytes"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	oldaisdk "github.com/tailrace/tailrace/internal/testkit/oldturn/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/turnequal"
)

var knownAISDK = turnequal.Differences{{
	Name: "end of the last sub-agent while a user is asked", Dialect: turnequal.AISDK,
	Reason:  "the run continues only when the user has answered, and clients answer after the end of the response",
	Accepts: endsWhilePaused,
}, {
	Name: "hidden interruption", Dialect: turnequal.AISDK,
	Reason: "a hidden record of an interruption ends the text, as a visible one does",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.Hidden[at] && c.Log[at].Type == chunk.TypeRunInterrupted
	},
}, {
	Name: "state of the run of a sub-agent", Dialect: turnequal.AISDK,
	Reason: "records of the state of its run do not end the text of a sub-agent, as they do not end that of the session's agent",
	Accepts: func(c *turnequal.Case, at int) bool {
		return c.AISDK.SubAgents == oldaisdk.Inline && anyBefore(c, at, func(rec *chunk.Record) bool {
			switch rec.Type {
			case chunk.TypeSuspensionMarker, chunk.TypeRunResumed, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted, chunk.TypeStepDiscarded:
				return rec.Session != c.Log[0].Session
			}
			return false
		})
	},
}, {
	Name: "latest record", Dialect: turnequal.AISDK,
	Reason: "a hidden record of a sub-agent counts for Meta.LastAt, also if it is the first one",
	Accepts: func(c *turnequal.Case, at int) bool {
		if !hasMetadata(c) {
			return false
		}
		for i := range min(at+1, len(c.Log)) {
			if c.Hidden[i] && c.Log[i].Session != c.Log[0].Session {
				return true
			}
		}
		return false
	},
}, {
	Name: "members of the part in a request that a rule answers", Dialect: turnequal.AISDK,
	Reason: "a request that a rule answers is not shown, and does not change the part of a call that has its input",
	Accepts: func(c *turnequal.Case, at int) bool {
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			b, ok := chunk.BodyOf[chunk.ToolApprovalRequest](*rec)
			return ok && b.IsAutomatic != nil && *b.IsAutomatic && bytes.Contains(rec.Data, []byte(`"part"`))
		})
	},
}, {
	Name: "hidden first record", Dialect: turnequal.AISDK,
	Reason:  "the session of the first record is that of the turn, also if it is hidden",
	Accepts: func(c *turnequal.Case, _ int) bool { return c.Hidden[0] },
}, {
	Name: "transient structured data", Dialect: turnequal.AISDK,
	Reason: "a history has structured data, also if a member of its part calls it transient, as the stream and the snapshot do",
	Accepts: func(c *turnequal.Case, at int) bool {
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			return isStructured(rec) && bytes.Contains(rec.Data, []byte("transient"))
		})
	},
}, {
	Name: "text of a sub-agent at its end", Dialect: turnequal.AISDK,
	Reason: "the record of the start or end of a sub-agent ends its text: a log without the end of its session would leave it open",
	Accepts: func(c *turnequal.Case, at int) bool {
		typ := c.Log[at].Type
		return c.AISDK.SubAgents == oldaisdk.Inline && (typ == chunk.TypeSubagentStart || typ == chunk.TypeSubagentEnd)
	},
}, {
	Name: "another tool", Dialect: turnequal.AISDK,
	Reason: "a call keeps the name of its tool in a new response, also if its arguments begin again with another name",
	Accepts: func(c *turnequal.Case, at int) bool {
		names := map[string]string{}
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			id, tool, ok := begunBy(rec)
			name, known := names[id]
			if ok && !known {
				names[id] = tool
			}
			return ok && known && name != tool
		})
	},
}, {
	Name: "malformed record", Dialect: turnequal.AISDK,
	Reason: "a response does not begin with a record that is malformed",
	Accepts: func(c *turnequal.Case, at int) bool {
		_, err := c.Shown[at].Decode()
		return err != nil
	},
}, {
	Name: "start of a sub-agent that runs", Dialect: turnequal.AISDK,
	Reason: "a sub-agent that starts itself, or is started while it runs, is not written, whichever agent starts it",
	Accepts: func(c *turnequal.Case, at int) bool {
		runs := map[string]bool{}
		last := false
		anyBefore(c, at, func(rec *chunk.Record) bool {
			last = false
			if b, ok := chunk.BodyOf[chunk.SubagentStart](*rec); ok {
				last = runs[b.SubSessionID] || b.SubSessionID == rec.Session.ID || b.SubSessionID == c.Log[0].Session.ID
				runs[b.SubSessionID] = true
			} else if b, ok := chunk.BodyOf[chunk.SubagentEnd](*rec); ok {
				last = b.SubSessionID == rec.Session.ID || b.SubSessionID == c.Log[0].Session.ID
				delete(runs, b.SubSessionID)
			}
			return false
		})
		return last
	},
}, {
	Name: "limit of tokens", Dialect: turnequal.AISDK,
	Reason: "a sum of tokens is at most chunk.MaxInteger, as in the other dialects",
	Accepts: func(c *turnequal.Case, at int) bool {
		return hasMetadata(c) && anyBefore(c, at, func(rec *chunk.Record) bool {
			return rec.Type == chunk.TypeStepEnd && bytes.Contains(rec.Data, []byte("Tokens\":900719925474099"))
		})
	},
}, {
	Name: "empty step after an end that was not written", Dialect: turnequal.AISDK,
	Reason: "the old writer counted the empty step of an end whose frames it dropped, so that the client never got one, and posted again",
	Accepts: func(c *turnequal.Case, at int) bool {
		ends := func(rec *chunk.Record) bool {
			return rec.Session == c.Log[0].Session && (rec.Type == chunk.TypeStreamEnd || rec.Type == chunk.TypeStreamFailed)
		}
		return (ends(&c.Log[at]) || c.Log[at].Type == chunk.TypeRunInterrupted || c.Log[at].Type == chunk.TypeError) && anyBefore(c, at-1, ends)
	},
}, {
	Name: "second end after an interruption", Dialect: turnequal.AISDK,
	Reason: "a turn that was interrupted ends with an error or a resumed run only, however often the log has its end",
	Accepts: func(c *turnequal.Case, at int) bool {
		ends := 0
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			switch {
			case rec.Session != c.Log[0].Session:
			case rec.Type == chunk.TypeRunInterrupted && (ends == 0 || !removes(c)):
				ends = 1
			case rec.Type == chunk.TypeStreamEnd && ends > 0:
				ends++
			}
			return ends > 2
		})
	},
}, {
	Name: "finish reason of an end that is not written", Dialect: turnequal.AISDK,
	Reason:  "Meta.FinishReason is that of the last chunk that was written, also if the turn has ended since",
	Accepts: func(c *turnequal.Case, at int) bool { return hasMetadata(c) && endsTwice(c, at) },
}, {
	Name: "hidden structured data", Dialect: turnequal.AISDK,
	Reason: "a hidden record of structured data counts for what follows, as in the snapshot",
	Accepts: func(c *turnequal.Case, at int) bool {
		for i := range at {
			if c.Hidden[i] && isStructured(&c.Log[i]) {
				return isStructured(&c.Log[at])
			}
		}
		return false
	},
}, {
	Name: "second pause", Dialect: turnequal.AISDK,
	Reason: "a run that waits for its sub-agents, and then pauses again for the client, ends the response: the client has to answer",
	Accepts: func(c *turnequal.Case, at int) bool {
		paused := false
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			before := paused
			switch {
			case rec.Session != c.Log[0].Session:
				return false
			case rec.Type == chunk.TypeStreamPaused:
				paused = true
				return before
			case rec.Type == chunk.TypeRunStarted || rec.Type == chunk.TypeStreamActive:
				paused = paused && removes(c)
			}
			return false
		})
	},
}, {
	Name: "structured data before removed records", Dialect: turnequal.AISDK,
	Reason: "after a removal of structured data the streams are those before the step, as in the snapshot, and not lost",
	Accepts: func(c *turnequal.Case, at int) bool {
		return isStructured(&c.Log[at]) && anyBefore(c, at, func(rec *chunk.Record) bool { return rec.Type == chunk.TypeTruncated })
	},
}, {
	Name: "number of a repeated id after a removal", Dialect: turnequal.AISDK,
	Reason: "the numbers behind the id of a call rise as long as one with a number is left, so that a later call has the higher one",
	Accepts: func(c *turnequal.Case, at int) bool {
		ended, twice, removed := map[string]bool{}, map[string]bool{}, false
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			if rec.Type == chunk.TypeTruncated {
				removed = true
			}
			if id, ok := endedBy(rec); ok {
				twice[id] = twice[id] || ended[id]
				ended[id] = true
			}
			id, _, ok := begunBy(rec)
			return ok && removed && twice[id]
		})
	},
}, {
	Name: "record that was hidden before", Dialect: turnequal.AISDK,
	Reason: "a hidden record of a sub-agent counts for what is repeated or fenced, also if it is the first one",
	Accepts: func(c *turnequal.Case, at int) bool {
		hidden := map[chunk.Session]chunk.Record{}
		for i, rec := range c.Log[:min(at+1, len(c.Log))] {
			switch last := hidden[rec.Session]; {
			case rec.Session == c.Log[0].Session:
			case !c.Hidden[i] && (rec.Ordinal <= last.Ordinal || rec.Epoch < last.Epoch):
				return true
			case c.Hidden[i] && rec.Ordinal > last.Ordinal && rec.Epoch >= last.Epoch:
				hidden[rec.Session] = rec
			}
		}
		return false
	},
}, {
	Name: "order of inputs that stream", Dialect: turnequal.AISDK,
	Reason: "a new response begins the inputs that stream in the order in which their calls began",
	Accepts: func(c *turnequal.Case, at int) bool {
		streams := map[string]bool{}
		return anyBefore(c, at, func(rec *chunk.Record) bool {
			id, _, ok := begunBy(rec)
			switch ended, isEnd := endedBy(rec); {
			case ok && rec.Type == chunk.TypeToolArgStreamStart:
				streams[id] = true
			case ok:
				delete(streams, id)
			case isEnd:
				delete(streams, ended)
			}
			return len(streams) > 1
		})
	},
}}

// endedBy returns the call whose outcome a record has.
func endedBy(rec *chunk.Record) (id string, ok bool) {
	c, err := rec.Decode()
	if err != nil {
		return "", false
	}
	switch b := c.Body.(type) {
	case chunk.ToolEnd:
		return b.ToolCallID, true
	case chunk.ToolOutputError:
		return b.ToolCallID, true
	case chunk.ToolInputError:
		return b.ToolCallID, true
	case chunk.ToolApprovalResponse:
		return b.ToolCallID, !b.Approved
	}
	return "", false
}

// isStructured reports whether a record is structured data.
func isStructured(rec *chunk.Record) bool {
	b, ok := chunk.BodyOf[chunk.Custom](*rec)
	return ok && strings.HasPrefix(b.EventName, "structured-data")
}

// endsTwice reports whether the turn waits or has ended, and has another end before it is resumed.
func endsTwice(c *turnequal.Case, at int) bool {
	ended := false
	return anyBefore(c, at, func(rec *chunk.Record) bool {
		before := ended
		switch rec.Type {
		case chunk.TypeStreamPaused, chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeRunInterrupted, chunk.TypeError:
			ended = ended || rec.Session == c.Log[0].Session
			return before && rec.Session == c.Log[0].Session
		case chunk.TypeRunStarted, chunk.TypeStreamActive, chunk.TypeRunResumed:
			ended = false
		}
		return false
	})
}

// begunBy returns the call that a record begins, or would if it had not begun before.
func begunBy(rec *chunk.Record) (id, tool string, ok bool) {
	c, err := rec.Decode()
	if err != nil {
		return "", "", false
	}
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		return b.ToolCallID, b.ToolName, true
	case chunk.ToolStart:
		return b.ToolCallID, b.ToolName, true
	case chunk.ToolApprovalRequest:
		return b.ToolCallID, b.ToolName, true
	}
	return "", "", false
}

// removes reports whether records of the log are removed. A history leaves them out, also the records of runs.
func removes(c *turnequal.Case) bool {
	return anyBefore(c, len(c.Log), func(rec *chunk.Record) bool { return rec.Type == chunk.TypeTruncated })
}

// hasMetadata reports whether metadata of the message is written.
func hasMetadata(c *turnequal.Case) bool {
	return c.AISDK.StartMetadata != nil || c.AISDK.StepMetadata != nil || c.AISDK.FinishMetadata != nil
}

// anyBefore reports whether a record up to at is of a form.
func anyBefore(c *turnequal.Case, at int, is func(*chunk.Record) bool) bool {
	for i := range c.Log[:min(at+1, len(c.Log))] {
		if is(&c.Log[i]) {
			return true
		}
	}
	return false
}
