package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// Formats of `tailrace firehose`.
const (
	formatJSON        = "json"
	formatCloudEvents = "cloudevents"
	formatText        = "text"
)

// firehosePrinter prints what a firehose delivers.
type firehosePrinter interface {
	print(rec chunk.Record) error
	gap(g consumers.Gap) error
	end(at []consumers.PartitionPosition) error // nil is unknown
}

// firehoseText prints text, in which no line has a position.
type firehoseText struct{ textPrinter }

func (p *firehoseText) end([]consumers.PartitionPosition) error { return p.textPrinter.end() }

func (p *firehoseText) gap(g consumers.Gap) error {
	return p.line(g.Session.ID, red, fmt.Sprintf("records missing: sequences %d to %d of partition %d (%s)", g.From, g.To, g.Partition, g.Reason))
}

// firehoseLines writes one JSON line for each record, with the unchanged stored chunk. A loader without a JSON parser finds the position at the beginning of
// each line.
type firehoseLines struct {
	out    io.Writer
	layout subjects.Layout
	epochs []string // of the partitions, for CloudEvents; nil for lines of our own
	buf    []byte
}

func (p *firehoseLines) print(rec chunk.Record) error {
	line := rawjson.Begin(p.buf[:0])
	at := consumers.PartitionPosition{Partition: p.layout.Partition(rec.Session), Cursor: rec.Cursor()}
	line.String("position", at.String())
	if p.epochs == nil {
		line.Text("tenant", rec.Session.Tenant)
		line.Text("root", rec.Session.Root)
		line.Text("session", rec.Session.ID)
		line.Number("partition", int64(at.Partition))
		line.Number("sequence", int64(rec.Seq))
		line.Number("ordinal", int64(rec.Ordinal))
		line.Number("epoch", int64(rec.Epoch))
		line.String("storedAt", rec.StoredAt.UTC().Format(time.RFC3339Nano))
		line.Raw("chunk", dataOf(rec))
	} else {
		p.event(&line, rec, at)
	}
	return p.write(line)
}

// event writes the attributes of a CloudEvent. A sequence may be larger than an integer of a CloudEvent, so it is a string.
func (p *firehoseLines) event(line *rawjson.Object, rec chunk.Record, at consumers.PartitionPosition) {
	line.String("specversion", "1.0")
	line.String("id", chunk.EventID(rec.Epoch, rec.Ordinal))
	line.Text("source", rec.Session.String())
	line.Text("type", string(rec.Type))
	if c, err := rec.Decode(); err == nil {
		line.String("time", time.UnixMilli(c.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	line.String("datacontenttype", "application/json")
	line.String("sequence", fmt.Sprint(rec.Seq))
	line.Number("partition", int64(at.Partition))
	line.String("streamepoch", p.epochs[at.Partition])
	line.Raw("data", dataOf(rec))
}

// dataOf returns the chunk of a record. A view shows that a stream ends, and nothing of the chunk if that is malformed.
func dataOf(rec chunk.Record) []byte {
	if rec.Data == nil {
		return []byte("null")
	}
	return rec.Data
}

func (p *firehoseLines) gap(g consumers.Gap) error {
	line := rawjson.Begin(p.buf[:0])
	line.Nest("gap")
	line.Number("partition", int64(g.Partition))
	line.Number("from", int64(g.From))
	line.Number("to", int64(g.To))
	line.String("reason", string(g.Reason))
	if g.Reason == chunk.TruncatedGap {
		line.Text("tenant", g.Session.Tenant)
		line.Text("root", g.Session.Root)
		line.Text("session", g.Session.ID)
		line.Number("firstOrdinal", int64(g.FirstOrdinal))
		line.Number("lastOrdinal", int64(g.LastOrdinal))
	}
	line.Close()
	return p.write(line)
}

// end writes the position after the last line, for --after.
func (p *firehoseLines) end(at []consumers.PartitionPosition) error {
	if at == nil {
		return nil
	}
	var all []string
	for _, position := range at {
		all = append(all, position.String())
	}
	line := rawjson.Begin(p.buf[:0])
	line.Nest("end")
	line.String("position", strings.Join(all, ","))
	line.Close()
	return p.write(line)
}

// write writes a line in one call, so that a reader never gets two lines mixed.
func (p *firehoseLines) write(line rawjson.Object) error {
	p.buf = append(line.End(), '\n')
	_, err := p.out.Write(p.buf)
	return err
}
