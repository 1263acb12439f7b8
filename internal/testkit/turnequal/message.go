package turnequal

import (
	"errors"
	"fmt"
)

// responses compares the responses that chat writes: a client has the records before one place, the records before another one are history, and the others follow.
func (p *pair) responses() error {
	for n := range maxTails {
		has := 0
		if n%2 == 1 {
			has = p.pick(len(p.Log) + 1)
		}
		if err := p.response(has, has+p.pick(len(p.Log)-has+1)); err != nil {
			return err
		}
	}
	return nil
}

// response compares a response for a client that has the records before one place, with the history before another one.
func (p *pair) response(has, stored int) error {
	p.begin(fmt.Sprintf("for a client that has %d records, with a history up to %d", has, stored))
	old, isOld := p.old.(Message)
	now, isNew := p.now.(Message)
	if !isOld || !isNew {
		return errors.New("the writer of the AI SDK is not a Message")
	}
	for i := range has {
		p.at = i
		if p.Hidden[i] {
			old.Hide(nil, p.Log[i])
			now.Hide(nil, p.lend(p.Log[i]))
		} else {
			old.Advance(p.Shown[i])
			now.Advance(p.lend(p.Shown[i]))
		}
	}
	switch p.pick(3) {
	case 0:
		p.did += ", Continue"
		old.Continue()
		now.Continue()
	case 1:
		p.did += ", Resume"
		if err := p.resumes(); err != nil {
			return err
		}
	}
	if err := p.replays(old, now, has, stored); err != nil {
		return err
	}
	end := stored + p.pick(len(p.Log)-stored+1)
	for i := stored; i < end; i++ {
		if now.Done() {
			old.Continue()
			now.Continue()
		}
		if err := p.appends(i); err != nil {
			return err
		}
	}
	return p.equal("Finish", old.Finish([]byte(dst)), now.Finish([]byte(dst)))
}

// replays compares the history from one place to another, whose frames are sent when they are complete.
func (p *pair) replays(old, now Message, from, to int) error {
	was, is := old.BeginReplay(), now.BeginReplay()
	for i := from; i < to; i++ {
		was.FindRemoved(p.Log[i])
		is.FindRemoved(p.lend(p.Log[i]))
	}
	if p.pick(2) == 0 {
		p.did += ", Start"
		if err := p.equal("Start", old.Start([]byte(dst)), now.Start([]byte(dst))); err != nil {
			return err
		}
	}
	for i := from; i < to; i++ {
		if !p.Hidden[i] {
			was.Scan(p.Shown[i])
			is.Scan(p.lend(p.Shown[i]))
		}
	}
	var wrote, writes []byte
	for i := from; i < to; i++ {
		p.at = i
		if p.Hidden[i] {
			wrote, writes = was.Hide(wrote, p.Log[i]), is.Hide(writes, p.lend(p.Log[i]))
		} else {
			wrote, writes = was.Append(wrote, p.Shown[i]), is.Append(writes, p.lend(p.Shown[i]))
		}
		if err := p.equal("Append of a replay", wrote, writes); err != nil {
			return err
		}
		if was.Complete() != is.Complete() {
			return fmt.Errorf("%s: record %d of a replay, %s: complete %t, new %t\nof %s\n%s", p.Dialect, i, p.did, was.Complete(), is.Complete(), p.Turn, p.upTo())
		}
		if was.Complete() {
			wrote, writes = wrote[:0], writes[:0]
		}
	}
	return p.equal("End of a replay", was.End(wrote), is.End(writes))
}
