package script

import (
	"encoding/binary"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// message makes a reply: an int becomes an integer, a string a string, nil a null, a slice an array, and an error an
// error reply.
func message(t *testing.T, value any) rueidis.RedisMessage {
	t.Helper()
	var m rueidis.RedisMessage
	require.NoError(t, m.CacheUnmarshalView(append(make([]byte, 7), encoded(value)...)))
	return m
}

// encoded is the form in which the client stores replies.
func encoded(value any) []byte {
	switch v := value.(type) {
	case nil:
		return sized('_', 0)
	case int:
		return sized(':', v)
	case string:
		return append(sized('+', len(v)), v...)
	case error:
		return append(sized('-', len(v.Error())), v.Error()...)
	case []any:
		all := sized('*', len(v))
		for _, element := range v {
			all = append(all, encoded(element)...)
		}
		return all
	}
	panic("no such reply")
}

func sized(kind byte, n int) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(n))
}

// answer makes an error reply.
func answer(t *testing.T, text string) error {
	t.Helper()
	m := message(t, serverError(text))
	return m.Error()
}

type serverError string

func (e serverError) Error() string { return string(e) }
