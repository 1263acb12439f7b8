package main

import (
	"cmp"
	"encoding/json"

	"github.com/tailrace/tailrace/subjects"
)

// partitionList is a setting with the number of partitions, or the numbers of all generations, the newest last: "1,4".
type partitionList string

// UnmarshalText parses the setting.
func (p *partitionList) UnmarshalText(text []byte) error {
	earlier, partitions, err := subjects.ParsePartitionList(string(text))
	*p = partitionList(subjects.Layout{Earlier: earlier, Partitions: partitions}.PartitionList())
	return err
}

// UnmarshalJSON also accepts a number.
func (p *partitionList) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	return p.UnmarshalText([]byte(text))
}

// in sets the partitions of a layout.
func (p partitionList) in(l subjects.Layout) (subjects.Layout, error) {
	var err error
	if l.Earlier, l.Partitions, err = subjects.ParsePartitionList(string(cmp.Or(p, "1"))); err != nil {
		return l, err
	}
	return l, l.Validate()
}
