package script

import "github.com/redis/rueidis"

// ReadInts reads a reply that is an array of whole numbers into dst, whose capacity saves the
// allocation, or fails as Broken.
func (c *Call) ReadInts(reply rueidis.RedisMessage, dst []int64) ([]int64, error) {
	values, err := reply.ToArray()
	if err != nil {
		return nil, brokenf(c.script, "reply is no array: %w", err)
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

// ReadInt reads a reply that is one whole number, or fails as Broken.
func (c *Call) ReadInt(reply rueidis.RedisMessage) (int64, error) {
	n, err := reply.ToInt64()
	if err != nil {
		return 0, brokenf(c.script, "reply is no integer: %w", err)
	}
	return n, nil
}

// Unexpected is the failure of a reply of the right type that the header does not list.
func (c *Call) Unexpected(reply any) error { return brokenf(c.script, "unexpected reply %v", reply) }
