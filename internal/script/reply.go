package script

import "github.com/redis/rueidis"

// ReadInts reads a reply that is an array of whole numbers into dst, whose capacity saves the
// allocation, or fails as Broken.
func (c *Call) ReadInts(dst []int64) ([]int64, error) {
	return c.readNumbers(dst, (*rueidis.RedisMessage).ToInt64)
}

// ReadNumbers is ReadInts for scripts that return numbers as texts because Lua's numbers cannot hold them.
func (c *Call) ReadNumbers(dst []int64) ([]int64, error) {
	return c.readNumbers(dst, (*rueidis.RedisMessage).AsInt64)
}

func (c *Call) readNumbers(dst []int64, read func(*rueidis.RedisMessage) (int64, error)) ([]int64, error) {
	values, err := c.ReadArray()
	if err != nil {
		return nil, err
	}
	for i := range values {
		n, err := read(&values[i])
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

// ReadRows hands on the rows of a reply, each a text and some whole numbers, or fails as
// Broken. The numbers are the caller's only until it returns.
func (c *Call) ReadRows(values []rueidis.RedisMessage, numbers int, row func(text string, n []int64)) error {
	if len(values)%(1+numbers) != 0 {
		return c.Unexpected()
	}
	n := make([]int64, numbers)
	for ; len(values) > 0; values = values[1+numbers:] {
		text, err := values[0].ToString()
		if err != nil {
			return c.Unexpected()
		}
		for i := range n {
			if n[i], err = values[1+i].AsInt64(); err != nil {
				return c.Unexpected()
			}
		}
		row(text, n)
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

// Denies reports whether the reply is 0, where others are arrays.
func (c *Call) Denies() bool {
	n, err := c.reply.ToInt64()
	return err == nil && n == 0
}

// Text is a reply that is a text; "" if it is none.
func (c *Call) Text() string {
	text, _ := c.reply.ToString()
	return text
}

// Unexpected is the failure of a reply of the right type that the header does not list.
func (c *Call) Unexpected() error {
	reply, _ := c.reply.ToAny()
	return brokenf(c.script, "unexpected reply %v", reply)
}
