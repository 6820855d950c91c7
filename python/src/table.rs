//! Tables as Arrow, which dataframe libraries take without copies.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StringArray, UInt32Array, UInt64Array,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyType};
use servecast::io::results::{Cells, NamedCells};

/// A table.
#[pyclass(frozen, weakref, mapping, module = "servecast")]
#[derive(Clone)]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    /// Takes columns over.
    pub(crate) fn of(columns: Vec<NamedCells>) -> Self {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
            .into_iter()
            .map(|(name, cells)| {
                let (array, may_lack) = array(cells);
                (Field::new(name, array.data_type().clone(), may_lack), array)
            })
            .unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Self { batch: batch.expect("columns are of one length") }
    }
}

fn array(cells: Cells) -> (ArrayRef, bool) {
    match cells {
        Cells::Integers(cells) => (Arc::new(Int64Array::from(cells)), true),
        Cells::Counts(cells) => (Arc::new(UInt32Array::from(cells)), true),
        Cells::Numbers(cells) => (Arc::new(Float64Array::from(cells)), true),
        Cells::Booleans(cells) => (Arc::new(BooleanArray::from(cells)), true),
        Cells::Texts(cells) => (Arc::new(StringArray::from(cells)), true),
        Cells::AllCounts(cells) => (Arc::new(UInt32Array::from(cells)), false),
        Cells::AllLongs(cells) => (Arc::new(UInt64Array::from(cells)), false),
        Cells::AllNumbers(cells) => (Arc::new(Float64Array::from(cells)), false),
        Cells::AllBooleans(cells) => (Arc::new(BooleanArray::from(cells)), false),
        Cells::Words { words, cells } => {
            let texts = cells.iter().map(|place| words[*place as usize].as_str());
            (Arc::new(StringArray::from_iter_values(texts)), false)
        }
    }
}

#[pymethods]
impl Table {
    /// The table as a stream of the Arrow C interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema is a wish, which need not be granted.
        let _ = requested_schema;
        let batches = [Ok(self.batch.clone())].into_iter();
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, self.batch.schema()));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// Rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether it has a column of this name.
    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        let name = name.extract::<String>();
        name.is_ok_and(|name| self.batch.column_by_name(&name).is_some())
    }

    /// The names of its columns, one after the other.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.column_names())?.try_iter()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.batch.column_by_name(name);
        let column = column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        values(py, column)
    }

    /// Each column by its name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (field, column) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            all.set_item(field.name(), values(py, column)?)?;
        }
        Ok(all)
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<servecast.Table of {} rows: {names}>", self.batch.num_rows())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// It never changes.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, memo: Bound<'py, PyAny>) -> Bound<'py, Self> {
        let _ = memo;
        slf
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = slf.get().bytes().map_err(wrong)?;
        Ok((slf.get_type().getattr("_read")?, (PyBytes::new(py, &bytes),)))
    }

    /// A table that was pickled.
    #[classmethod]
    fn _read(_class: &Bound<'_, PyType>, bytes: &[u8]) -> PyResult<Self> {
        let read = || -> Result<Option<RecordBatch>, ArrowError> {
            StreamReader::try_new(bytes, None)?.next().transpose()
        };
        match read().map_err(wrong)? {
            Some(batch) => Ok(Self { batch }),
            None => Err(PyValueError::new_err("a table was pickled without rows")),
        }
    }
}

impl Table {
    fn bytes(&self) -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), &self.batch.schema())?;
        writer.write(&self.batch)?;
        writer.into_inner()
    }
}

fn wrong(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("table: {error}"))
}

fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    macro_rules! list {
        ($($kind:ty),*) => {
            $(if let Some(column) = column.as_any().downcast_ref::<$kind>() {
                return PyList::new(py, column.iter().collect::<Vec<_>>());
            })*
        };
    }
    list!(UInt32Array, UInt64Array, Int64Array, Float64Array, BooleanArray, StringArray);
    unreachable!("a table has no columns of {}", column.data_type())
}
