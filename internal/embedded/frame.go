package embedded

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A frame is one command, reply or push, exactly as it was read.
type frame struct {
	raw   []byte
	kind  byte     // of the value: '*', '>', '+', …
	words []string // the strings of which an aggregate consists
}

// name is the first word.
func (f frame) name() string {
	if len(f.words) == 0 {
		return ""
	}
	return strings.ToLower(f.words[0])
}

var (
	subscriptions = []string{"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"}
	messages      = []string{"message", "pmessage", "smessage"}
	scripts       = []string{"eval", "evalsha", "fcall"}
)

func (f frame) subscribes() bool { return slices.Contains(subscriptions, f.name()) }
func (f frame) runsScript() bool { return slices.Contains(scripts, f.name()) }
func (f frame) isMessage() bool  { return slices.Contains(messages, f.name()) }
func (f frame) isWakeUp() bool   { return f.words[len(f.words)-1] == wakeUp }

// isNoScript reports whether the server has executed nothing yet, as it does not have the script.
func (f frame) isNoScript() bool { return bytes.HasPrefix(f.raw, []byte("-NOSCRIPT")) }

// subscription splits "punsubscribe" into its object, "p", and whether it ends that.
func (f frame) subscription() (of string, ends bool) {
	return strings.CutSuffix(strings.TrimSuffix(f.name(), "subscribe"), "un")
}

// A reader splits a stream into frames of RESP2 and RESP3.
type reader struct {
	*bufio.Reader
	raw   []byte // of the frame being read
	words []string
}

func newReader(r io.Reader) *reader { return &reader{Reader: bufio.NewReader(r)} }

func (r *reader) read() (frame, error) {
	r.raw, r.words = nil, nil
	kind, err := r.value()
	return frame{raw: r.raw, kind: kind, words: r.words}, err
}

// value reads one value with all that is in it.
func (r *reader) value() (kind byte, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	r.raw = append(r.raw, line...)
	text := strings.TrimRight(string(line[1:]), "\r\n")
	switch kind = line[0]; kind {
	case '$', '=', '!':
		return kind, r.bulk(text)
	case '*', '~', '>':
		return kind, r.values(text, 1)
	case '%':
		return kind, r.values(text, 2)
	case '|': // attributes of the value that follows
		if err := r.values(text, 2); err != nil {
			return kind, err
		}
		return r.value()
	case '+', '-', ':', '_', '#', ',', '(':
		return kind, nil
	}
	return kind, fmt.Errorf("embedded server: malformed value %q", line) // an inline command, too
}

// bulk reads a string of the size given; a negative one is a null.
func (r *reader) bulk(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return err
	}
	start := len(r.raw)
	r.raw = append(r.raw, make([]byte, n+2)...)
	if _, err := io.ReadFull(r, r.raw[start:]); err != nil {
		return err
	}
	r.words = append(r.words, string(r.raw[start:start+n]))
	return nil
}

// values reads n values as often as the header says; a negative size is a null.
func (r *reader) values(size string, n int) error {
	count, err := strconv.Atoi(size)
	for range count * n {
		if err == nil {
			_, err = r.value()
		}
	}
	return err
}
