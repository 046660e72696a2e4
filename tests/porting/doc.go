// Package porting holds Java classes that use Redisson, ported line by line. The Java text is in docs/redisson.md; the
// tests run what is here against a real server.
package porting
