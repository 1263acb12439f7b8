package ingestion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Warning is about a line that is stored, and probably mistaken: a member has no meaning and is like one which the line lacks, or names a call that has not begun.
type Warning struct {
	Line    int64  `json:"line"`
	Member  string `json:"member"`
	Nearest string `json:"nearest,omitempty"` // member, or call; "" if no call is like it

	isCall bool
}

// String returns the text of w for users, without the number of the line.
func (w Warning) String() string {
	text, hint := fmt.Sprintf("there is no member %.80q", w.Member), ""
	if w.isCall {
		text = "no line before it begins the call of " + w.Member
	}
	if w.Nearest != "" {
		hint = fmt.Sprintf("; did you mean %.80q?", w.Nearest)
	}
	return text + ", and it is stored" + hint
}

// MaxWarnings bounds the warnings of a request.
const MaxWarnings = 10

// maxCalls bounds the bytes of the ids in Calls, which a request keeps in memory: a client chooses their length.
const maxCalls = 4 << 10

// Calls has the ids of the calls that the lines of a turn have begun.
type Calls struct {
	Incomplete bool // some lines are not known, there are too many calls, or too many warnings

	ids    []string
	bytes  int
	warned int
}

// Begin forgets the calls if a run of a mode opens a turn. A run of another mode continues one, whose calls are not known.
func (k *Calls) Begin(mode string) { *k = Calls{Incomplete: mode != "execute" && mode != ""} }

func (k *Calls) add(id string) {
	if k.Incomplete || slices.Contains(k.ids, id) {
		return
	}
	if k.bytes += len(id) + 16; k.bytes > maxCalls {
		*k = Calls{Incomplete: true}
		return
	}
	k.ids = append(k.ids, strings.Clone(id))
}

// Warnings returns the warnings about the next line, which was decoded as c.
func (k *Calls) Warnings(line int64, text []byte, c chunk.Chunk) (all []Warning) {
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		k.add(b.ToolCallID)
	case chunk.ToolStart:
		k.add(b.ToolCallID)
	case chunk.ToolApprovalRequest:
		k.add(b.ToolCallID)
	case chunk.ToolEnd:
		if !k.Incomplete && !slices.Contains(k.ids, b.ToolCallID) {
			all = append(all, Warning{Line: line, Member: "toolCallId", Nearest: nearest.Name(b.ToolCallID, k.ids), isCall: true})
			k.warned++
			k.Incomplete = k.warned == MaxWarnings // a comparison takes time
		}
	}
	if len(c.Extra) == 0 {
		return all
	}
	var missing []string
	for _, m := range chunk.Schema(c.Type()) {
		if rawjson.Get(text, m.Name) == nil {
			missing = append(missing, m.Name)
		}
	}
	for _, m := range c.Extra {
		if near := nearest.Name(m.Name, missing); near != "" && m.Name != chunk.PartMember {
			all = append(all, Warning{Line: line, Member: m.Name, Nearest: near})
		}
	}
	return all
}
