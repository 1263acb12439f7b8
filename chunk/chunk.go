package chunk

// Chunk is one output or action of an agent, with the base members that every chunk has.
type Chunk struct {
	AgentID   string // session id of the agent that produced it
	AgentType string // name of the agent's definition
	Timestamp int64  // Unix milliseconds
	Step      int64  // step of the agent in its current turn, 0 before the first; absent is read as 0
	Body      Body
	Extra     []Member // members that the schema does not have, in their order
}

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value Value
}

// Type returns the type of the chunk's body, "" if there is none.
func (c Chunk) Type() Type {
	if c.Body == nil {
		return ""
	}
	return c.Body.kind()
}

// MarshalJSON implements json.Marshaler with AppendJSON.
func (c Chunk) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON implements json.Unmarshaler with Decode.
func (c *Chunk) UnmarshalJSON(data []byte) error {
	read, err := Decode(data)
	if err == nil {
		*c = read
	}
	return err
}

// As gives the body of c when it is a T: the type guard of every chunk type.
//
//	if call, ok := chunk.As[chunk.ToolStart](c); ok {
func As[T Body](c Chunk) (T, bool) {
	b, ok := c.Body.(T)
	return b, ok
}

// BodyOf gives the body of a record when it is a T. A malformed record has none.
func BodyOf[T Body](r Record) (T, bool) {
	c, _ := r.Decode()
	return As[T](c)
}
