package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is one plain RESP2 connection. It does nothing by itself: no handshake, no retry, no pipelining unless Send
// is called more than once. It is for one goroutine at a time, except that one may Send while another Receives.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Error is an error reply, with Redis' own words.
type Error string

func (e Error) Error() string { return string(e) }

// Dial connects to a server or to a proxy in front of it.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, r: bufio.NewReader(c)}, nil
}

// Do sends one command and waits for its reply, at most 10 s.
// Replies are string, int64, nil or []any; an error reply is returned as an Error.
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send writes one command and does not wait for its reply.
func (c *Conn) Send(args ...string) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := c.Write(b)
	return err
}

// Receive reads the next reply or pub/sub message.
func (c *Conn) Receive() (any, error) {
	reply, err := c.read()
	if err != nil {
		return nil, err
	}
	if e, ok := reply.(Error); ok {
		return nil, e
	}
	return reply, nil
}

// read decodes one value; error replies, also those within an array, are values here.
func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("redistest: malformed reply %q", line)
	}
	kind, body := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return body, nil
	case '-':
		return Error(body), nil
	}
	n, err := strconv.ParseInt(body, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("redistest: malformed reply %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, nil //nolint:nilnil // Redis' null
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		elems := make([]any, n)
		for i := range elems {
			if elems[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return elems, nil
	}
	return nil, fmt.Errorf("redistest: malformed reply %q", line)
}
