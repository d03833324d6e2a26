// Package sqs puts messages into queues of AWS SQS: commands for sessions into
// the inbox, and what the host sends out into plain queues.
//
// It receives none: Lambda does, and hands over batches. It owns the form of a
// command's message, but not what a command may ask, which the one who performs
// it decides; of other messages it knows nothing. It may import the AWS SDK,
// core/blob, core/ident and the host's ports.
package sqs
