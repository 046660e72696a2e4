//go:build darwin || freebsd || openbsd || dragonfly

package run

import "os"

// Only Linux has these. Elsewhere the guard and the process group must do.

func adoptOrphans()           {}
func rename(string)           {}
func itself() (string, error) { return os.Executable() }
func ended(int, *string) bool { return false }
func marked(string) []int     { return nil }
