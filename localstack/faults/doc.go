// Package faults breaks what the deployed stack works with, while it works:
// processes that are killed, asked twice or too late, wakes that are lost,
// requests that are throttled, refused or not answered. After each, nothing that
// was acknowledged is lost, nothing unsafe was done twice, and no session is left
// at work with nobody working.
//
// It has no code but tests. They may import any package of this module.
package faults
