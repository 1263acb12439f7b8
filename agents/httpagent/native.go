package httpagent

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/ingestion"
)

// nativeTranslator reads chunks of the log. Their agentId, agentType, timestamp and step may be left out.
type nativeTranslator struct {
	run    codec.Run
	step   int64
	ended  bool                // one of the chunks ended the stream
	failed *chunk.StreamFailed // likewise, unsuccessfully
	open   map[string]bool     // calls without an outcome
	rests  dialect.Rests
}

// nativeRead are the members of the ends of a stream that are read; the others are kept. The SDK writes the ends.
var nativeRead = dialect.LeaveOut(map[string]string{"": "agentId agentType timestamp step streamId"}).Reads(map[string]string{
	"stream_end": "finalOutput.*", "stream_failed": "error errorDetail.message errorDetail.code",
})

func newNativeTranslator(r codec.Run) codec.Translator {
	return &nativeTranslator{run: r, step: r.Step, open: make(map[string]bool)}
}

// Translate implements codec.Translator.
func (n *nativeTranslator) Translate(raw []byte) ([]chunk.Chunk, error) {
	if o, ok := ingestion.Outlined(raw); ok {
		raw = o.Filled(ingestion.Base{AgentID: n.run.Session, AgentType: n.run.AgentType, Timestamp: 1}) // the step has its own time
	}
	c, err := chunk.DecodeUnstored(raw)
	if err != nil {
		return nil, err
	}
	switch b := c.Body.(type) {
	case chunk.StepStart:
		n.step++
	case chunk.ToolStart:
		n.open[b.ToolCallID] = true
	case chunk.ToolEnd:
		delete(n.open, b.ToolCallID)
	case chunk.StreamEnd:
		n.ended = true
		rest := n.rest(raw, c)
		if b.FinalOutput != nil {
			rest = append(rest, n.own(chunk.Output{Output: *b.FinalOutput}))
		}
		return rest, nil
	case chunk.StreamPaused:
		n.ended = true
		return n.rest(raw, c), nil
	case chunk.StreamFailed:
		n.ended, n.failed = true, &b
		return n.rest(raw, c), nil
	}
	c.Step = n.step
	return []chunk.Chunk{c}, nil
}

// rest returns what an end of the stream has besides what is read.
func (n *nativeTranslator) rest(raw []byte, c chunk.Chunk) []chunk.Chunk {
	rest := n.rests.Of(dialect.Read(raw), string(c.Type()), nativeRead)
	if rest == nil {
		return nil
	}
	return []chunk.Chunk{n.own(chunk.Custom{EventName: Native + "." + dialect.RestEvent, Data: rest})}
}

func (n *nativeTranslator) own(b chunk.Body) chunk.Chunk {
	return chunk.Chunk{AgentID: n.run.Session, AgentType: n.run.AgentType, Step: n.step, Body: b}
}

// End implements codec.Translator.
func (n *nativeTranslator) End() []chunk.Chunk {
	end := n.own(nil)
	switch {
	case n.failed != nil:
		end.Body = *n.failed
	case !n.ended:
		text := userMessages[CodeConnectionLost]
		end.Body = chunk.StreamFailed{Error: text, ErrorDetail: &chunk.ErrorDetail{Message: text, Code: new(aisdk.CodeConnectionLost)}}
	case len(n.open) > 0:
		end.Body = chunk.StreamPaused{}
	default:
		end.Body = chunk.StreamEnd{StreamID: n.run.Session}
	}
	return []chunk.Chunk{end}
}
