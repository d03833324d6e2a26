package inbox

// NoteWithin is what the last try leaves for the note.
const NoteWithin = noteWithin
