package sharing

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Ended is what a direct connection answers a call whose context has ended, in place of the server. It fits into the
// smallest buffer that a client can have.
const Ended = "-ENDED\r\n"

// IsEnded reports whether err is that answer.
func IsEnded(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.Error() == "ENDED"
}

// Owed are the replies to calls that were answered with [Ended]. The server sends them still, in front of what it
// answers to the next call, and nobody wants them.
type Owed struct {
	values int    // of the protocol that are still to come
	bytes  int    // of a string, and the end of its line
	line   []byte // the beginning of the next line, which had not all come
}

// Add counts one more.
func (o *Owed) Add() { o.values++ }

// None reports whether there are none.
func (o *Owed) None() bool { return o.values == 0 && o.bytes == 0 }

// Many reports whether there are so many that the calls would soon fill what a server that reads nothing has room for.
func (o *Owed) Many() bool { return o.values >= 64 }

// Skip returns what of a connection's next bytes does not belong to such replies. Messages between them go, too.
func (o *Owed) Skip(b []byte) ([]byte, error) {
	for len(b) > 0 && !o.None() {
		if o.bytes > 0 {
			n := min(o.bytes, len(b))
			o.bytes, b = o.bytes-n, b[n:]
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		o.line, b = append(o.line, line...), rest
		if !whole {
			break
		}
		if err := o.begin(bytes.TrimSuffix(o.line, []byte("\r"))); err != nil {
			return nil, err
		}
		o.line = nil
	}
	return b, nil
}

// begin counts what follows the first line of a value.
func (o *Owed) begin(line []byte) error {
	if len(line) == 0 {
		return errors.New("a reply begins with an empty line")
	}
	o.values--
	kind := line[0]
	if strings.IndexByte("+-:_#,(", kind) >= 0 {
		return nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	switch {
	case err != nil:
		return fmt.Errorf("a reply begins with %q", line)
	case n < 0: // a null
		return nil
	}
	switch kind {
	case '*', '~':
		o.values += n
	case '%':
		o.values += 2 * n
	case '|': // a value follows
		o.values += 2*n + 1
	case '>': // this was none of the replies
		o.values += n + 1
	case '$', '=', '!':
		o.bytes = n + len("\r\n")
	default:
		return fmt.Errorf("a reply begins with %q", line)
	}
	return nil
}
