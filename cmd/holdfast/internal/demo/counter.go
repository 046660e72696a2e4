package demo

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// A counter is a file with a number in it. Nothing protects it: between a read and the write
// of one process any other may come. The number has a fixed width, so that a write is one
// step, and what goes wrong without a lock is a lost update and not a torn number.
type counter string

func (c counter) read() (int, error) {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (c counter) write(n int) error {
	file, err := os.OpenFile(string(c), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%012d", n)
	return errors.Join(err, file.Close())
}
