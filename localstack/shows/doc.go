// Package shows holds the deployed stack to what it is for: each test is one
// thing that a session does, asked for through the API as clients do, and looked
// at where AWS keeps it: the head in the table, the execution's history, the
// bucket, the queues.
//
// The models and tools of its sessions are servers of the tests' own on this
// machine, so the functions must be able to reach it: on AWS itself they cannot.
//
// It has no code but tests. They may import any package of this module.
package shows
