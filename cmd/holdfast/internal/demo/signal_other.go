//go:build !unix

package demo

import (
	"errors"
	"os"
)

var errSuspend = errors.New("processes cannot be stopped and resumed on this system")

func suspend(*os.Process) error { return errSuspend }
func wake(*os.Process) error    { return errSuspend }
