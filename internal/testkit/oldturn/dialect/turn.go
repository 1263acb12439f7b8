package dialect

import "github.com/tailrace/tailrace/chunk"

// modeExecute is the mode of a run that opens a turn; a run of another mode continues the open turn, unless it has input.
const modeExecute = "execute"

// Turns finds the records that open a turn of a session, as package fold does. The zero value is before the first record.
type Turns struct {
	open bool
	run  string // id of the latest run
}

// Opens reports whether rec, the next record of the session, opens a turn: a takeover, a resumption and the same run again continue the open one. A record that
// is not a run_started opens a turn only at the beginning of a session. inputs is the number of messages of the user that it has.
func (t *Turns) Opens(rec *chunk.Record) (opens bool, inputs int) {
	opens = !t.open
	t.open = true
	if rec.Type != chunk.TypeRunStarted {
		return opens, 0
	}
	c, err := rec.Decode()
	if err != nil {
		return opens, 0
	}
	run, _ := chunk.As[chunk.RunStarted](c)
	opens = opens || run.RunID != t.run && (run.Mode == modeExecute || len(run.Input) > 0)
	t.run = run.RunID
	return opens, len(run.Input)
}
