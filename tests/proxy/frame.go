package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
)

// frame is one request, reply or push, exactly as it was read.
type frame struct {
	raw   []byte
	kind  byte     // the first byte of the value: '*', '>', '+', '-' …; 0 for an inline command
	items []string // an aggregate's scalars, aggregates within it as ""; of a request: the command
}

// frameReader splits a stream into frames. It understands RESP2 and RESP3 without streamed types, which Redis does
// not send.
type frameReader struct {
	r       *bufio.Reader
	raw     []byte      // of the frame being read
	streams atomic.Bool // what comes from now on are no values, but what a master sends to its replica
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// request reads one command, in the usual form or inline. A frame without items is no command and gets no reply.
func (f *frameReader) request() (frame, error) {
	first, err := f.r.Peek(1)
	if err != nil {
		return frame{}, err
	}
	if first[0] == '*' {
		return f.reply()
	}
	f.raw = nil
	line, err := f.line()
	if err != nil {
		return frame{}, err
	}
	return frame{raw: f.raw, items: strings.Fields(line)}, nil
}

// reply reads one value, together with the attributes in front of it; of a stream, what has come of it.
func (f *frameReader) reply() (frame, error) {
	f.raw = nil
	if _, err := f.r.Peek(1); err != nil {
		return frame{}, err
	}
	if f.streams.Load() {
		f.raw = make([]byte, f.r.Buffered())
		_, err := io.ReadFull(f.r, f.raw)
		return frame{raw: f.raw}, err
	}
	v, err := f.value()
	return frame{raw: f.raw, kind: v.kind, items: v.items}, err
}

// value is one decoded value: a scalar's text or an aggregate's items.
type value struct {
	kind  byte
	text  string
	items []string
}

func (f *frameReader) value() (value, error) {
	line, err := f.line()
	if err != nil {
		return value{}, err
	}
	if line == "" {
		return value{}, fmt.Errorf("proxy: empty line where a value should start")
	}
	v := value{kind: line[0]}
	switch v.kind {
	case '+', '-', ':', '_', '#', ',', '(':
		v.text = line[1:]
		return v, nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil {
		return value{}, fmt.Errorf("proxy: malformed value %q", line)
	}
	switch v.kind {
	case '$', '!', '=':
		v.text, err = f.bulk(size)
		return v, err
	case '*', '~', '>':
		v.items, err = f.elements(size)
		return v, err
	case '%':
		v.items, err = f.elements(2 * size)
		return v, err
	case '|': // attributes belong to the value that follows
		if _, err := f.elements(2 * size); err != nil {
			return value{}, err
		}
		return f.value()
	}
	return value{}, fmt.Errorf("proxy: malformed value %q", line)
}

// elements reads the values of an aggregate; a negative size is a null.
func (f *frameReader) elements(size int) ([]string, error) {
	var items []string
	for range size {
		v, err := f.value()
		if err != nil {
			return nil, err
		}
		items = append(items, v.text)
	}
	return items, nil
}

// bulk reads a string of known size; a negative size is a null.
func (f *frameReader) bulk(size int) (string, error) {
	if size < 0 {
		return "", nil
	}
	start := len(f.raw)
	f.raw = append(f.raw, make([]byte, size+2)...)
	if _, err := io.ReadFull(f.r, f.raw[start:]); err != nil {
		return "", err
	}
	return string(f.raw[start : start+size]), nil
}

func (f *frameReader) line() (string, error) {
	b, err := f.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return "", err
	}
	f.raw = append(f.raw, b...)
	if errors.Is(err, bufio.ErrBufferFull) { // a long error text or inline command
		rest, err := f.line()
		return string(b) + rest, err
	}
	return strings.TrimSuffix(string(b[:len(b)-1]), "\r"), nil
}
