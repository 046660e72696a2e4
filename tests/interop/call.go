package interop

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for an answer before it fails. It is the deadline of what should have happened
// at once, so it is no measure of anything.
const patience = 30 * time.Second

// Call is a request to the JVM that is under way.
type Call struct {
	what   string
	done   chan struct{}
	answer Answer
}

// Answer is how a call ended.
type Answer struct {
	Value string        // the result as Java prints it: "true", "42", "null"
	Err   error         // a [JavaError], or [ErrDied]
	At    time.Time     // when the call ended by Java's clock, in milliseconds: for a lock, the moment of the grant
	Took  time.Duration // how long it took in Java
}

// JavaError is what a Java method threw.
type JavaError struct {
	Class   string // of the exception, without its package
	Message string
}

func (e *JavaError) Error() string { return e.Class + ": " + e.Message }

// Done is closed when the answer is there.
func (c *Call) Done() <-chan struct{} { return c.done }

// Answer is the answer; it waits for it as long as the JVM lives. Unlike [Call.Wait], it may be called from any
// goroutine.
func (c *Call) Answer() Answer {
	<-c.done
	return c.answer
}

// Wait waits for the answer, whatever it is, and fails the test if none comes.
func (c *Call) Wait(tb testing.TB) Answer {
	tb.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		tb.Fatalf("java %s: no answer within %v", c.what, patience)
	}
	return c.answer
}

// OK waits for the answer and fails the test if it is an error.
func (c *Call) OK(tb testing.TB) Answer {
	tb.Helper()
	answer := c.Wait(tb)
	if answer.Err != nil {
		tb.Fatalf("java %s: %v", c.what, answer.Err)
	}
	return answer
}

// Bool is the value of a call that returned a boolean.
func (a Answer) Bool() bool { return a.Value == "true" }

// Int is the value of a call that returned a number, and 0 for null.
func (a Answer) Int() int64 {
	n, _ := strconv.ParseInt(a.Value, 10, 64)
	return n
}

// Strings are the values of a call that returned a string or a list of them, none for null.
func (a Answer) Strings() []string {
	if a.Value == "null" || a.Value == "[]" {
		return nil
	}
	return strings.Split(strings.Trim(a.Value, "[]"), ", ")
}

// Turns are how often the thread of [Object.StartTurns] had the lock, and its longest wait for it.
func (a Answer) Turns() (had int, longest time.Duration) {
	values := a.Strings()
	had, _ = strconv.Atoi(values[0])
	micros, _ := strconv.Atoi(values[1])
	return had, time.Duration(micros) * time.Microsecond
}

// end sets the answer, once.
func (c *Call) end(answer Answer) {
	c.answer = answer
	close(c.done)
}

// parse reads a line of answers, whose form is in Driver.java. A line of another form is a mistake in that program.
func parse(line string) (id int, answer Answer) {
	words := strings.Split(line, " ")
	id, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 5 {
		panic(fmt.Sprintf("interop: java printed %q", line))
	}
	millis, _ := strconv.ParseInt(words[2], 10, 64)
	micros, _ := strconv.ParseInt(words[3], 10, 64)
	text, _ := url.QueryUnescape(words[len(words)-1])
	answer = Answer{At: time.UnixMilli(millis), Took: time.Duration(micros) * time.Microsecond}
	if words[1] == "err" {
		answer.Err = &JavaError{Class: words[4], Message: text}
	} else {
		answer.Value = text
	}
	return id, answer
}
