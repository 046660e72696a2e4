package script

import "github.com/redis/rueidis"

// ReadInts reads a reply that is an array of whole numbers into dst, whose capacity saves the
// allocation, or fails as Broken.
func (c *Call) ReadInts(dst []int64) ([]int64, error) {
	values, err := c.ReadArray()
	if err != nil {
		return nil, err
	}
	for i := range values {
		n, err := values[i].ToInt64()
		if err != nil {
			return nil, brokenf(c.script, "reply %d is no integer: %w", i+1, err)
		}
		dst = append(dst, n)
	}
	return dst, nil
}

// ReadArray reads a reply that is an array, or fails as Broken.
func (c *Call) ReadArray() ([]rueidis.RedisMessage, error) {
	values, err := c.reply.ToArray()
	if err != nil {
		return nil, brokenf(c.script, "reply is no array: %w", err)
	}
	return values, nil
}

// ReadPairs hands on texts and whole numbers that stand in turn in a reply, or fails as Broken.
func (c *Call) ReadPairs(values []rueidis.RedisMessage, pair func(text string, n int64)) error {
	if len(values)%2 != 0 {
		return c.Unexpected()
	}
	for i := 0; i < len(values); i += 2 {
		text, err := values[i].ToString()
		if err != nil {
			return c.Unexpected()
		}
		n, err := values[i+1].AsInt64()
		if err != nil {
			return c.Unexpected()
		}
		pair(text, n)
	}
	return nil
}

// ReadInt reads a reply that is one whole number, or fails as Broken.
func (c *Call) ReadInt() (int64, error) {
	n, err := c.reply.ToInt64()
	if err != nil {
		return 0, brokenf(c.script, "reply is no integer: %w", err)
	}
	return n, nil
}

// Unexpected is the failure of a reply of the right type that the header does not list.
func (c *Call) Unexpected() error {
	reply, _ := c.reply.ToAny()
	return brokenf(c.script, "unexpected reply %v", reply)
}
