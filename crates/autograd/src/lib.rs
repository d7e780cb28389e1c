//! Records a graph of operators and walks it backwards.
