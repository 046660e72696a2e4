//go:build !unix

package demo

import "errors"

var errSuspend = errors.New("processes cannot be stopped and resumed on this system")

func (*process) suspend() error { return errSuspend }
func (*process) wake() error    { return errSuspend }
